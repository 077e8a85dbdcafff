package keylane.aggregate;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.Arrays;
import keylane.blocks.Block;

/**
 * A window of a query and group: what a task counted of it, what is known of it, or what is delivered. It says all that
 * the steps need to know, so that they know no query.
 *
 * <pre>
 *   WINDOW, RESULT   key length 4 | key: start 8, end 8, query id, time field, values of the group
 *                    due 8 | corrects 1 | events 8 | partials 8 | aggregates
 * </pre>
 *
 * A window is `due` when the watermark of its time field has reached that: at its end, and the lateness of its query.
 * Events of it that come later are a window of their own where it `corrects`, and otherwise are counted and dropped.
 */
final class Window {
    static final byte WINDOW = 2;
    static final byte RESULT = Block.PASSING + 2;
    /** The same of events that came after their window was delivered. */
    static final byte CORRECTION = Block.PASSING + 3;

    final long start;
    final long end;
    final String query;
    final String time;
    final Object[] group;
    final long due;
    final boolean corrects;
    long events;
    long partials;
    final Aggregate[] aggregates;

    Window(long start, long end, String query, String time, Object[] group, long due, boolean corrects,
        Aggregate[] aggregates) {
        this.start = start;
        this.end = end;
        this.query = query;
        this.time = time;
        this.group = group;
        this.due = due;
        this.corrects = corrects;
        this.aggregates = aggregates;
    }

    /** What two parts of one window have in common, and no other has. */
    static final class Key {
        private final byte[] bytes;
        private final int hash;

        Key(byte[] block, int at) {
            int from = at + Block.FIELDS;
            bytes = Arrays.copyOfRange(block, from + 4, from + 4 + Block.getInt(block, from));
            hash = Arrays.hashCode(bytes);
        }

        public int hashCode() {
            return hash;
        }

        public boolean equals(Object other) {
            return other instanceof Key && Arrays.equals(bytes, ((Key) other).bytes);
        }
    }

    /** Take an event: of each aggregate a value, or null where it has none. */
    void add(Object[] values) {
        events++;
        for (int at = 0; at < values.length; at++) {
            if (values[at] != null) {
                aggregates[at].add(values[at]);
            }
        }
    }

    void merge(Window other) {
        events += other.events;
        partials += other.partials;
        for (int at = 0; at < aggregates.length; at++) {
            aggregates[at].merge(other.aggregates[at]);
        }
    }

    void put(Block to, byte kind) {
        try {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream(128);
            DataOutputStream out = new DataOutputStream(bytes);
            out.writeLong(start);
            out.writeLong(end);
            out.writeUTF(query);
            out.writeUTF(time);
            out.writeInt(group.length);
            for (int at = 0; at < group.length; at++) {
                Values.write(out, group[at]);
            }
            int length = bytes.size();
            out.writeLong(due);
            out.writeBoolean(corrects);
            out.writeLong(events);
            out.writeLong(partials);
            Aggregate.writeAll(out, aggregates);
            to.begin(kind).putInt(length).putBytes(bytes.toByteArray()).end();
        } catch (IOException never) {
            throw new IllegalStateException(never);
        }
    }

    static Window of(byte[] block, int at) {
        try {
            int from = at + Block.FIELDS + 4;
            DataInputStream in = new DataInputStream(
                new ByteArrayInputStream(block, from, Block.length(block, at) - Block.FIELDS - 4));
            long start = in.readLong();
            long end = in.readLong();
            String query = in.readUTF();
            String time = in.readUTF();
            Object[] group = new Object[in.readInt()];
            for (int i = 0; i < group.length; i++) {
                group[i] = Values.read(in);
            }
            long due = in.readLong();
            boolean corrects = in.readBoolean();
            long events = in.readLong();
            long partials = in.readLong();
            Window made = new Window(start, end, query, time, group, due, corrects, Aggregate.readAll(in));
            made.events = events;
            made.partials = partials;
            return made;
        } catch (IOException damaged) {
            throw new IllegalStateException("a window that cannot be read", damaged);
        }
    }

    /** Of one query: by start, then by the values of the group. */
    static int order(Window one, Window other) {
        // Ids are ASCII: this is the order of their bytes.
        int order = one.query.compareTo(other.query);
        order = order != 0 ? order : Long.compare(one.start, other.start);
        for (int at = 0; order == 0 && at < one.group.length; at++) {
            order = Values.order(one.group[at], other.group[at]);
        }
        return order;
    }
}
