import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.apache.commons.crypto.cipher.CryptoCipher;
import org.apache.commons.crypto.cipher.CryptoCipherFactory;

/**
 * How fast Java's ciphers encrypt frames: the JDK's own, and those of Commons Crypto, which Spark
 * uses for its shuffles, through OpenSSL where that loads and through JCE. A line of JSON for each
 * cipher, frame size and number of threads; for one that does not load, why.
 *
 * <p>usage: java -cp commons-crypto.jar CipherBench.java SECONDS SIZES THREADS, lists by commas.
 * Keys have 256 bits. Each frame has an IV of its own, as it must.
 */
public final class CipherBench {
  /** Encrypts one frame under a new IV. */
  private interface Encryption {
    void frame(long number) throws Exception;
  }

  /** Sets one up, with buffers of its own. */
  private interface Setup {
    Encryption of(int size) throws Exception;
  }

  private static final String[] MODES = {
    "AES/CTR/NoPadding", "AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"
  };
  private static final byte[] KEY = new byte[32];

  public static void main(String[] arguments) throws Exception {
    double seconds = Double.parseDouble(arguments[0]);
    new SecureRandom().nextBytes(KEY);
    for (String mode : MODES) {
      run("jdk", mode, size -> jdk(mode, size), seconds, arguments);
      for (String name : new String[] {"openssl", "jce"}) {
        run("commons-" + name, mode, size -> commons(name, mode, size), seconds, arguments);
      }
    }
  }

  private static void run(
      String library, String mode, Setup setup, double seconds, String[] arguments) {
    for (String size : arguments[1].split(",")) {
      for (String threads : arguments[2].split(",")) {
        String result;
        try {
          double rate =
              rate(setup, Integer.parseInt(size), Integer.parseInt(threads), seconds);
          result = String.format(Locale.ROOT, "\"bytes_per_s\": %.0f", rate);
        } catch (Throwable error) {
          Throwable cause = error;
          while (cause.getCause() != null) {
            cause = cause.getCause();
          }
          String why = (cause + "").replaceAll("[\"\\\\\\p{Cntrl}]", " ");
          result = "\"error\": \"" + why + "\"";
        }
        System.out.println(
            "{\"library\": \"" + library + "\", \"mode\": \"" + mode.split("/")[1].toLowerCase(
                Locale.ROOT) + "\", \"size\": " + size + ", \"threads\": " + threads + ", " + result
                + "}");
        if (result.startsWith("\"error")) {
          return;
        }
      }
    }
  }

  /** Bytes per second of all threads together, after as long to warm up. */
  private static double rate(Setup setup, int size, int threads, double seconds) throws Exception {
    List<Encryption> each = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      each.add(setup.of(size));
    }
    double[] rates = new double[threads];
    Throwable[] failed = new Throwable[1];
    CountDownLatch warm = new CountDownLatch(threads);
    List<Thread> running = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      int at = i;
      Thread thread =
          new Thread(
              () -> {
                try {
                  long number = frames(each.get(at), 0, seconds);
                  warm.countDown();
                  warm.await();
                  long start = System.nanoTime();
                  long end = frames(each.get(at), number, seconds);
                  rates[at] = (end - number) * (double) size / ((System.nanoTime() - start) / 1e9);
                } catch (Throwable error) {
                  failed[0] = error;
                  warm.countDown();
                }
              });
      running.add(thread);
      thread.start();
    }
    double sum = 0;
    for (int i = 0; i < threads; i++) {
      running.get(i).join();
      sum += rates[i];
    }
    if (failed[0] != null) {
      throw new Exception(failed[0]);
    }
    return sum;
  }

  private static long frames(Encryption encryption, long number, double seconds) throws Exception {
    long end = System.nanoTime() + (long) (seconds * 1e9);
    while (System.nanoTime() < end) {
      encryption.frame(number++);
    }
    return number;
  }

  private static Encryption jdk(String mode, int size) throws Exception {
    Cipher cipher = Cipher.getInstance(mode);
    SecretKeySpec key = new SecretKeySpec(KEY, "AES");
    byte[] in = new byte[size];
    byte[] out = new byte[size + 32];
    return number -> {
      cipher.init(Cipher.ENCRYPT_MODE, key, parameters(mode, number));
      cipher.doFinal(in, 0, size, out, 0);
    };
  }

  private static Encryption commons(String name, String mode, int size) throws Exception {
    Properties properties = new Properties();
    properties.setProperty(
        CryptoCipherFactory.CLASSES_KEY,
        name.equals("openssl")
            ? CryptoCipherFactory.CipherProvider.OPENSSL.getClassName()
            : CryptoCipherFactory.CipherProvider.JCE.getClassName());
    CryptoCipher cipher = CryptoCipherFactory.getCryptoCipher(mode, properties);
    SecretKeySpec key = new SecretKeySpec(KEY, "AES");
    ByteBuffer in = ByteBuffer.allocateDirect(size);
    ByteBuffer out = ByteBuffer.allocateDirect(size + 32);
    return number -> {
      in.clear();
      out.clear();
      cipher.init(Cipher.ENCRYPT_MODE, key, parameters(mode, number));
      cipher.doFinal(in, out);
    };
  }

  private static java.security.spec.AlgorithmParameterSpec parameters(String mode, long number) {
    boolean gcm = mode.contains("GCM");
    byte[] iv = new byte[gcm ? 12 : 16];
    ByteBuffer.wrap(iv).putLong(number);
    return gcm ? new GCMParameterSpec(128, iv) : new IvParameterSpec(iv);
  }
}
