// `helm lint --strict` and `helm template` of one chart, by Helm's own code: CHART lint, or
// CHART template VALUES NAMESPACE. What is wrong goes to standard error, and the exit code is 1.

import com.marcnuri.helm.LintResult;
import java.nio.file.Path;

final class Helm {
  public static void main(String[] arguments) {
    var chart = new com.marcnuri.helm.Helm(Path.of(arguments[0]));
    try {
      if (arguments[1].equals("lint")) {
        LintResult result = chart.lint().strict().call();
        result.getMessages().forEach(result.isFailed() ? System.err::println : System.out::println);
        System.exit(result.isFailed() ? 1 : 0);
      }
      System.out.print(
          chart
              .template()
              .withName("coffer")
              .withNamespace(arguments[3])
              .withValuesFile(Path.of(arguments[2]))
              .call());
    } catch (IllegalStateException refused) {
      System.err.println(refused.getMessage());
      System.exit(1);
    }
  }
}
