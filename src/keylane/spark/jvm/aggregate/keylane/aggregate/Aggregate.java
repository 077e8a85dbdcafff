package keylane.aggregate;

import java.io.DataInput;
import java.io.DataOutput;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.MathContext;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;

/**
 * One aggregate of one window and group, all of them exact: what came in two halves, in any order, gives what came whole.
 * A window's share of a batch and the window itself are the same object, so a partial aggregate is merged as it is.
 *
 * <p>Values that are null are left out, as SQL does; `count(*)` is given a value for every event.
 */
abstract class Aggregate {
    static final byte COUNT = 'c';
    static final byte SUM = 's';
    static final byte AVERAGE = 'a';
    static final byte LEAST = 'l';
    static final byte MOST = 'm';
    static final byte DISTINCT = 'd';
    static final byte QUANTILES = 'q';
    static final byte TOP = 't';

    abstract byte kind();

    /** Take a value that is not null. */
    abstract void add(Object value);

    abstract void merge(Aggregate other);

    abstract void write(DataOutput to) throws IOException;

    abstract void read(DataInput from) throws IOException;

    abstract void json(StringBuilder to);

    static Aggregate of(byte kind, double[] given) {
        switch (kind) {
            case COUNT:
                return new Count();
            case SUM:
                return new Sum(false);
            case AVERAGE:
                return new Sum(true);
            case LEAST:
                return new Extreme(false);
            case MOST:
                return new Extreme(true);
            case DISTINCT:
            case QUANTILES:
            case TOP:
                return new Tally(kind, given);
            default:
                throw new IllegalArgumentException("no such aggregate: " + kind);
        }
    }

    static void writeAll(DataOutput to, Aggregate[] all) throws IOException {
        to.writeInt(all.length);
        for (int at = 0; at < all.length; at++) {
            to.writeByte(all[at].kind());
            all[at].write(to);
        }
    }

    static Aggregate[] readAll(DataInput from) throws IOException {
        Aggregate[] all = new Aggregate[from.readInt()];
        for (int at = 0; at < all.length; at++) {
            all[at] = of(from.readByte(), null);
            all[at].read(from);
        }
        return all;
    }

    static final class Count extends Aggregate {
        private long count;

        byte kind() {
            return COUNT;
        }

        void add(Object value) {
            count++;
        }

        void merge(Aggregate other) {
            count += ((Count) other).count;
        }

        void write(DataOutput to) throws IOException {
            to.writeLong(count);
        }

        void read(DataInput from) throws IOException {
            count = from.readLong();
        }

        void json(StringBuilder to) {
            to.append(count);
        }
    }

    /** A sum, or an average: whole numbers and decimals without rounding, doubles rounded once. Nothing gives null. */
    static final class Sum extends Aggregate {
        private static final MathContext DIGITS = new MathContext(120);
        private final boolean isAverage;
        private long count;
        private long whole;
        /** What did not fit into `whole`. */
        private BigInteger more = BigInteger.ZERO;
        private BigDecimal decimal;
        private ExactSum doubles;

        Sum(boolean isAverage) {
            this.isAverage = isAverage;
        }

        byte kind() {
            return isAverage ? AVERAGE : SUM;
        }

        void add(Object value) {
            count++;
            if (value instanceof Long) {
                add(((Long) value).longValue());
            } else if (value instanceof Double) {
                if (doubles == null) {
                    doubles = new ExactSum();
                }
                doubles.add(((Double) value).doubleValue());
            } else {
                decimal = decimal == null ? (BigDecimal) value : decimal.add((BigDecimal) value);
            }
        }

        private void add(long value) {
            long sum = whole + value;
            if (((whole ^ sum) & (value ^ sum)) < 0L) {
                more = more.add(BigInteger.valueOf(whole)).add(BigInteger.valueOf(value));
                whole = 0L;
            } else {
                whole = sum;
            }
        }

        void merge(Aggregate given) {
            Sum other = (Sum) given;
            count += other.count;
            add(other.whole);
            more = more.add(other.more);
            if (other.decimal != null) {
                decimal = decimal == null ? other.decimal : decimal.add(other.decimal);
            }
            if (other.doubles != null) {
                if (doubles == null) {
                    doubles = new ExactSum();
                }
                doubles.add(other.doubles);
            }
        }

        void write(DataOutput to) throws IOException {
            to.writeLong(count);
            to.writeLong(whole);
            Values.write(to, more.signum() == 0 ? null : new BigDecimal(more));
            Values.write(to, decimal);
            to.writeBoolean(doubles != null);
            if (doubles != null) {
                doubles.write(to);
            }
        }

        void read(DataInput from) throws IOException {
            count = from.readLong();
            whole = from.readLong();
            BigDecimal beyond = (BigDecimal) Values.read(from);
            more = beyond == null ? BigInteger.ZERO : beyond.toBigIntegerExact();
            decimal = (BigDecimal) Values.read(from);
            if (from.readBoolean()) {
                doubles = new ExactSum();
                doubles.read(from);
            }
        }

        void json(StringBuilder to) {
            BigInteger exact = more.add(BigInteger.valueOf(whole));
            // A column whose type has changed: what came before counts as well.
            BigDecimal before = decimal == null ? new BigDecimal(exact) : decimal.add(new BigDecimal(exact));
            if (doubles != null && before.signum() != 0) {
                doubles.add(before);
            } else if (decimal != null) {
                decimal = before;
            }
            whole = 0L;
            more = BigInteger.ZERO;
            if (count == 0L) {
                to.append("null");
            } else if (isAverage) {
                // Of whole numbers and decimals rounded once, as of doubles their sum is.
                to.append(doubles != null ? doubles.value() / count
                    : before.divide(BigDecimal.valueOf(count), DIGITS).doubleValue());
            } else if (doubles != null) {
                to.append(doubles.value());
            } else if (decimal != null) {
                Values.json(to, decimal);
            } else {
                to.append(exact);
            }
        }
    }

    static final class Extreme extends Aggregate {
        private final boolean isMost;
        private Object value;

        Extreme(boolean isMost) {
            this.isMost = isMost;
        }

        byte kind() {
            return isMost ? MOST : LEAST;
        }

        void add(Object given) {
            if (value == null || (Values.order(given, value) > 0) == isMost && !given.equals(value)) {
                value = given;
            }
        }

        void merge(Aggregate other) {
            if (((Extreme) other).value != null) {
                add(((Extreme) other).value);
            }
        }

        void write(DataOutput to) throws IOException {
            Values.write(to, value);
        }

        void read(DataInput from) throws IOException {
            value = Values.read(from);
        }

        void json(StringBuilder to) {
            Values.json(to, value);
        }
    }

    /** How often each value came: what distinct values, quantiles and the most frequent ones are read off. */
    static final class Tally extends Aggregate implements Comparator {
        private final byte kind;
        private double[] given;
        private final Map counts = new HashMap();

        Tally(byte kind, double[] given) {
            this.kind = kind;
            this.given = given;
        }

        byte kind() {
            return kind;
        }

        void add(Object value) {
            add(value, 1L);
        }

        private void add(Object value, long many) {
            Object normal = Values.canonical(value);
            long[] before = (long[]) counts.get(normal);
            if (before == null) {
                counts.put(normal, new long[] {many});
            } else {
                before[0] += many;
            }
        }

        void merge(Aggregate other) {
            for (Iterator all = ((Tally) other).counts.entrySet().iterator(); all.hasNext(); ) {
                Map.Entry one = (Map.Entry) all.next();
                add(one.getKey(), ((long[]) one.getValue())[0]);
            }
        }

        void write(DataOutput to) throws IOException {
            to.writeInt(given.length);
            for (int at = 0; at < given.length; at++) {
                to.writeDouble(given[at]);
            }
            to.writeInt(counts.size());
            for (Iterator all = counts.entrySet().iterator(); all.hasNext(); ) {
                Map.Entry one = (Map.Entry) all.next();
                Values.write(to, one.getKey());
                to.writeLong(((long[]) one.getValue())[0]);
            }
        }

        void read(DataInput from) throws IOException {
            given = new double[from.readInt()];
            for (int at = 0; at < given.length; at++) {
                given[at] = from.readDouble();
            }
            int many = from.readInt();
            for (int at = 0; at < many; at++) {
                Object value = Values.read(from);
                add(value, from.readLong());
            }
        }

        /** Most frequent first; of one frequency the smaller value. */
        public int compare(Object one, Object other) {
            Map.Entry a = (Map.Entry) one;
            Map.Entry b = (Map.Entry) other;
            int order = Long.compare(((long[]) b.getValue())[0], ((long[]) a.getValue())[0]);
            return order != 0 ? order : Values.order(a.getKey(), b.getKey());
        }

        void json(StringBuilder to) {
            if (kind == DISTINCT) {
                to.append(counts.size());
            } else if (kind == TOP) {
                Object[] all = counts.entrySet().toArray();
                Arrays.sort(all, this);
                to.append('[');
                for (int at = 0; at < all.length && at < (int) given[0]; at++) {
                    Map.Entry one = (Map.Entry) all[at];
                    to.append(at == 0 ? "[" : ",[");
                    Values.json(to, one.getKey());
                    to.append(',').append(((long[]) one.getValue())[0]).append(']');
                }
                to.append(']');
            } else {
                quantiles(to);
            }
        }

        /** By linear interpolation between the two nearest ranks, as Spark's `percentile`. */
        private void quantiles(StringBuilder to) {
            Object[] values = counts.keySet().toArray();
            Arrays.sort(values, Values.ORDER);
            long[] upTo = new long[values.length];
            long all = 0L;
            for (int at = 0; at < values.length; at++) {
                all += ((long[]) counts.get(values[at]))[0];
                upTo[at] = all;
            }
            to.append('[');
            for (int at = 0; at < given.length; at++) {
                to.append(at == 0 ? "" : ",");
                if (all == 0L) {
                    to.append("null");
                    continue;
                }
                double position = (all - 1L) * given[at];
                long lower = (long) Math.floor(position);
                long higher = (long) Math.ceil(position);
                double low = ((Number) values[rank(upTo, lower)]).doubleValue();
                double high = ((Number) values[rank(upTo, higher)]).doubleValue();
                to.append(higher == lower || low == high ? low : (higher - position) * low + (position - lower) * high);
            }
            to.append(']');
        }

        private static int rank(long[] upTo, long number) {
            int found = Arrays.binarySearch(upTo, number + 1L);
            return found >= 0 ? found : -found - 1;
        }
    }
}
