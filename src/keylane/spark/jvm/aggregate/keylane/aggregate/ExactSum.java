package keylane.aggregate;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.math.BigDecimal;
import java.util.Arrays;

/**
 * The sum of doubles, rounded once: the same in whatever order they come and however they are divided into partial sums.
 *
 * <p>Rule: the sum is kept as a list of doubles that do not overlap and whose sum is exact; adding one runs along the list
 * with an error-free addition, and the result is the list rounded to the nearest double, ties to even. Example: 1e16, 1
 * and -1e16 give 1, where a plain loop gives 0. What is so large that a part may go beyond all doubles is added as a decimal:
 * 1e308, 1e308, -1e308 and -1e308 give 0. Infinities and NaN are kept beside it, as IEEE adds them.
 */
final class ExactSum {
    /** Of numbers below the first, sums stay below the second, which is far from the largest double. */
    private static final double LARGE = 0x1p1000;
    private static final double LARGEST = 0x1p1020;
    private double[] parts = new double[4];
    private int many;
    private double special;
    private boolean isSpecial;
    /** What is too large for parts; null for nothing. */
    private BigDecimal wide;

    void add(double value) {
        if (Double.isNaN(value) || Double.isInfinite(value)) {
            special = isSpecial ? special + value : value;
            isSpecial = true;
            return;
        }
        if (Math.abs(value) >= LARGE) {
            add(new BigDecimal(value));
            return;
        }
        double x = value;
        int kept = 0;
        for (int at = 0; at < many; at++) {
            double y = parts[at];
            if (Math.abs(x) < Math.abs(y)) {
                double other = x;
                x = y;
                y = other;
            }
            double high = x + y;
            double low = y - (high - x);
            if (low != 0.0) {
                parts[kept++] = low;
            }
            x = high;
        }
        if (kept == parts.length) {
            parts = Arrays.copyOf(parts, kept * 2);
        }
        parts[kept++] = x;
        many = kept;
        if (Math.abs(x) >= LARGEST) {
            add(ofParts());
            many = 0;
        }
    }

    /** Take a number that is no double. */
    void add(BigDecimal value) {
        wide = wide == null ? value : wide.add(value);
    }

    private BigDecimal ofParts() {
        BigDecimal sum = BigDecimal.ZERO;
        for (int at = 0; at < many; at++) {
            sum = sum.add(new BigDecimal(parts[at]));
        }
        return sum;
    }

    void add(ExactSum other) {
        for (int at = 0; at < other.many; at++) {
            add(other.parts[at]);
        }
        if (other.isSpecial) {
            add(other.special);
        }
        if (other.wide != null) {
            add(other.wide);
        }
    }

    double value() {
        if (isSpecial) {
            return special;
        }
        if (wide != null) {
            return wide.add(ofParts()).doubleValue();
        }
        if (many == 0) {
            return 0.0;
        }
        int at = many - 1;
        double high = parts[at];
        double low = 0.0;
        while (at > 0) {
            double x = high;
            double y = parts[--at];
            high = x + y;
            low = y - (high - x);
            if (low != 0.0) {
                break;
            }
        }
        // A tie was rounded to even although the rest says which side is nearer.
        if (at > 0 && (low < 0.0 && parts[at - 1] < 0.0 || low > 0.0 && parts[at - 1] > 0.0)) {
            double twice = low * 2.0;
            double x = high + twice;
            if (twice == x - high) {
                high = x;
            }
        }
        return high;
    }

    void write(DataOutput to) throws IOException {
        to.writeInt(many);
        for (int at = 0; at < many; at++) {
            to.writeDouble(parts[at]);
        }
        to.writeBoolean(isSpecial);
        to.writeDouble(special);
        Values.write(to, wide);
    }

    void read(DataInput from) throws IOException {
        many = from.readInt();
        parts = new double[Math.max(4, many)];
        for (int at = 0; at < many; at++) {
            parts[at] = from.readDouble();
        }
        isSpecial = from.readBoolean();
        special = from.readDouble();
        wide = (BigDecimal) Values.read(from);
    }
}
