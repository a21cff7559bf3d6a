import java.util.Random;
import java.util.SplittableRandom;

/**
 * Floats as this Java writes them: the golden files of tests/float_text.rs. How to make them:
 * tests/floats/README.md.
 *
 * <p>{@code java Floats.java} prints the file. {@code java Floats.java SEED COUNT} prints a digest
 * of so many random doubles and floats, which the ignored test of the same name computes again.
 */
public final class Floats {
  public static void main(String[] args) {
    if (args.length == 2) {
      compare(Long.parseLong(args[0]), Integer.parseInt(args[1]));
      return;
    }
    StringBuilder out = new StringBuilder();
    // Powers of two and ten, and their neighbours: where the distance to the next number changes,
    // and where notation does.
    for (int e = -1074; e < 1024; e++) neighbours(Math.scalb(1.0, e), out);
    for (int e = -324; e < 309; e++) neighbours(Double.parseDouble("1e" + e), out);
    for (int e = -30; e < 40; e++)
      for (int m = 1; m < 1000; m += e % 5 == 0 ? 1 : 37) one(Double.parseDouble(m + "e" + e), out);
    // Whole numbers around 2^53 and 2^63, whose last digits are dropped.
    for (int bits = 50; bits < 70; bits++)
      for (int k = -3; k < 4; k++)
        one(Math.scalb(1.0, bits) + k * Math.ulp(Math.scalb(1.0, bits)) * 5, out);
    for (long bits : new long[] {0, 1, 2, 3, 4, 5, 9, 10, 0xfffffffffffffL, 0x10000000000000L,
        0x7fefffffffffffffL}) {
      one(Double.longBitsToDouble(bits), out);
      one(-Double.longBitsToDouble(bits), out);
    }
    for (double d : new double[] {4.56789e15, 8.41e21, 2.0e-3, 2e23, 2.2e-322,
        9.007199254740993e15, 1.1e-5, 5.0e-324, Double.NaN,
        Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY}) one(d, out);
    for (int e = -149; e < 128; e++) neighbours(Math.scalb(1.0f, e), out);
    for (int e = -45; e < 39; e++) neighbours(Float.parseFloat("1e" + e), out);
    for (int e = -12; e < 14; e++)
      for (int m = 1; m < 1000; m += 7) one(Float.parseFloat(m + "e" + e), out);
    for (int bits : new int[] {0, 1, 2, 3, 4, 5, 9, 10, 0x7fffff, 0x800000, 0x7f7fffff,
        0x7fc00000, 0x7f800000, 0xff800000, 0x80000000})
      one(Float.intBitsToFloat(bits), out);
    Random random = new Random(19);
    for (int i = 0; i < 6000; i++) one(Double.longBitsToDouble(random.nextLong()), out);
    for (int i = 0; i < 6000; i++) one(random.nextInt(1_000_000_000) / 100.0, out);
    for (int i = 0; i < 4000; i++) one(Float.intBitsToFloat(random.nextInt()), out);
    System.out.print(out);
  }

  private static void neighbours(double d, StringBuilder out) {
    one(Math.nextDown(d), out);
    one(d, out);
    one(Math.nextUp(d), out);
  }

  private static void neighbours(float f, StringBuilder out) {
    one(Math.nextDown(f), out);
    one(f, out);
    one(Math.nextUp(f), out);
  }

  private static void one(double d, StringBuilder out) {
    out.append(String.format("%016x", Double.doubleToRawLongBits(d)));
    out.append('\t').append(d).append('\n');
  }

  private static void one(float f, StringBuilder out) {
    out.append(String.format("%08x", Float.floatToRawIntBits(f)));
    out.append('\t').append(f).append('\n');
  }

  /**
   * FNV-1a over the texts of numbers that SplittableRandom draws: all bits, then doubles of a few
   * decimals, then floats.
   */
  private static void compare(long seed, int count) {
    SplittableRandom random = new SplittableRandom(seed);
    long hash = 0xcbf29ce484222325L;
    for (int i = 0; i < count; i++) {
      long z = random.nextLong();
      String text = switch (i % 4) {
        case 0 -> Double.toString(Double.longBitsToDouble(z));
        case 1 -> Double.toString((z >>> 20) / 1000.0);
        case 2 -> Double.toString((double) (z >>> (z & 31)) * 1e-9);
        default -> Float.toString(Float.intBitsToFloat((int) z));
      };
      for (int k = 0; k < text.length(); k++) hash = (hash ^ text.charAt(k)) * 0x100000001b3L;
      hash = (hash ^ 10) * 0x100000001b3L;
    }
    System.out.println(count + " texts: " + Long.toHexString(hash));
  }
}
