package keylane.aggregate;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Values of events as the steps keep them: null, Boolean, Long (whole numbers, days, microseconds), Double, BigDecimal
 * and Text. Of two values of one field the types are the same, so they have an order.
 */
final class Values {
    /** Text by its UTF-8 bytes: its order is that of Python and Spark, not Java's. */
    static final class Text implements Comparable {
        final byte[] bytes;

        Text(byte[] bytes) {
            this.bytes = bytes;
        }

        public int hashCode() {
            return Arrays.hashCode(bytes);
        }

        public boolean equals(Object other) {
            return other instanceof Text && Arrays.equals(bytes, ((Text) other).bytes);
        }

        public int compareTo(Object other) {
            return Arrays.compareUnsigned(bytes, ((Text) other).bytes);
        }

        public String toString() {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    }

    /** What Spark's expression gave, as it is kept: nothing of it is in the memory of a row. */
    static Object of(Object value) {
        if (value == null || value instanceof Long || value instanceof Boolean) {
            return value;
        }
        if (value instanceof Integer || value instanceof Short || value instanceof Byte) {
            return Long.valueOf(((Number) value).longValue());
        }
        if (value instanceof Double) {
            // Zero is one value.
            return ((Double) value).doubleValue() == 0.0 ? Double.valueOf(0.0) : value;
        }
        if (value instanceof Float) {
            double wide = ((Float) value).doubleValue();
            return Double.valueOf(wide == 0.0 ? 0.0 : wide);
        }
        if (value instanceof UTF8String) {
            return new Text(((UTF8String) value).getBytes());
        }
        if (value instanceof Decimal) {
            return ((Decimal) value).toJavaBigDecimal();
        }
        throw new IllegalArgumentException("a value of a type that is not aggregated: " + value.getClass().getName());
    }

    /**
     * The one form of equal values, where they are compared for being equal: a column of whole numbers may become one of
     * doubles from one batch to the next, and decimals may get other scales.
     */
    static Object canonical(Object value) {
        if (value instanceof Double) {
            double number = ((Double) value).doubleValue();
            boolean isWhole = number == Math.rint(number) && Math.abs(number) < 9.2e18;
            return isWhole ? (Object) Long.valueOf((long) number) : value;
        }
        return value instanceof BigDecimal ? ((BigDecimal) value).stripTrailingZeros() : value;
    }

    static void write(DataOutput to, Object value) throws IOException {
        if (value == null) {
            to.writeByte('n');
        } else if (value instanceof Long) {
            to.writeByte('l');
            to.writeLong(((Long) value).longValue());
        } else if (value instanceof Double) {
            to.writeByte('d');
            to.writeDouble(((Double) value).doubleValue());
        } else if (value instanceof Boolean) {
            to.writeByte(((Boolean) value).booleanValue() ? 't' : 'f');
        } else if (value instanceof Text) {
            to.writeByte('s');
            bytes(to, ((Text) value).bytes);
        } else {
            to.writeByte('m');
            bytes(to, value.toString().getBytes(StandardCharsets.UTF_8));
        }
    }

    private static void bytes(DataOutput to, byte[] bytes) throws IOException {
        to.writeInt(bytes.length);
        to.write(bytes);
    }

    static Object read(DataInput from) throws IOException {
        byte kind = from.readByte();
        switch (kind) {
            case 'n':
                return null;
            case 'l':
                return Long.valueOf(from.readLong());
            case 'd':
                return Double.valueOf(from.readDouble());
            case 't':
                return Boolean.TRUE;
            case 'f':
                return Boolean.FALSE;
            default:
                byte[] bytes = new byte[from.readInt()];
                from.readFully(bytes);
                return kind == 's' ? (Object) new Text(bytes) : new BigDecimal(new String(bytes, StandardCharsets.UTF_8));
        }
    }

    /** The order of two values of one field; null comes first. */
    static int order(Object one, Object other) {
        if (one == null || other == null) {
            return one == other ? 0 : one == null ? -1 : 1;
        }
        if (one.getClass() != other.getClass()) {
            // A column of whole numbers that became one of doubles; or one whose type has changed altogether.
            boolean areNumbers = one instanceof Number && other instanceof Number;
            return areNumbers ? Double.compare(((Number) one).doubleValue(), ((Number) other).doubleValue())
                : one.getClass().getName().compareTo(other.getClass().getName());
        }
        return ((Comparable) one).compareTo(other);
    }

    /** The same, for sorting. */
    static final java.util.Comparator ORDER = new Order();

    private static final class Order implements java.util.Comparator {
        public int compare(Object one, Object other) {
            return order(one, other);
        }
    }

    static void json(StringBuilder to, Object value) {
        if (value instanceof Text || value instanceof BigDecimal) {
            quoted(to, value instanceof Text ? value.toString() : ((BigDecimal) value).toPlainString());
        } else {
            // NaN and infinities as Python's reader takes them.
            to.append(value);
        }
    }

    static void quoted(StringBuilder to, String text) {
        to.append('"');
        for (int at = 0; at < text.length(); at++) {
            char c = text.charAt(at);
            if (c == '"' || c == '\\') {
                to.append('\\').append(c);
            } else if (c < ' ') {
                String digits = Integer.toHexString(c);
                to.append("\\u0000", 0, 6 - digits.length()).append(digits);
            } else {
                to.append(c);
            }
        }
        to.append('"');
    }
}
