package example;

import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import keylane.blocks.Block;
import keylane.blocks.BlockStep;
import keylane.blocks.Output;
import keylane.blocks.Slots;
import keylane.blocks.SourceTimes;

/**
 * How many records each key has in each minute. A minute is sent on once the watermark has passed it; a record that comes
 * later than that makes a further count of its minute.
 *
 * <pre>
 *   EVENT           ts 8 | key, to the end
 *   COUNTED, SENT   minute 8 | count 8 | key, to the end
 * </pre>
 */
public final class CountByKey extends BlockStep {
    public static final byte EVENT = 2;
    public static final byte COUNTED = 3;
    public static final byte SENT = Block.PASSING;
    private static final long MINUTE = 60000000L;
    private static final int TS = Block.FIELDS;
    private static final int KEY_OF_EVENT = TS + 8;
    private static final int KEY_OF_COUNT = TS + 16;

    static final class Memory {
        final SourceTimes times = new SourceTimes();
        /** Minute -> key -> count. */
        final TreeMap minutes = new TreeMap();

        void add(long minute, byte[] block, int at, int length, long many) {
            Map counts = (Map) minutes.get(Long.valueOf(minute));
            if (counts == null) {
                counts = new TreeMap();
                minutes.put(Long.valueOf(minute), counts);
            }
            String key = new String(block, at, length, StandardCharsets.UTF_8);
            Long before = (Long) counts.get(key);
            counts.put(key, Long.valueOf(many + (before == null ? 0L : before.longValue())));
        }
    }

    public CountByKey(int slots) {
        super(new Slots(slots), "counts");
    }

    public Object empty() {
        return new Memory();
    }

    public void take(Object memory, int slot, List blocks, Output out) {
        Memory known = (Memory) memory;
        known.times.begin();
        for (int i = 0; i < blocks.size(); i++) {
            byte[] block = (byte[]) blocks.get(i);
            for (int at = 0; at < block.length; at += Block.length(block, at)) {
                if (Block.kind(block, at) == SourceTimes.TIME) {
                    known.times.take(block, at);
                } else {
                    long minute = Math.floorDiv(Block.getLong(block, at + TS), MINUTE);
                    known.add(minute, block, at + KEY_OF_EVENT, Block.length(block, at) - KEY_OF_EVENT, 1L);
                }
            }
        }
        SortedMap done = known.minutes.headMap(Long.valueOf(Math.floorDiv(known.times.held(0), MINUTE)));
        if (out != null) {
            put(out.passingTo(0), SENT, done);
        }
        done.clear();
    }

    private static void put(Block to, byte kind, SortedMap minutes) {
        for (Iterator all = minutes.entrySet().iterator(); all.hasNext(); ) {
            Map.Entry minute = (Map.Entry) all.next();
            for (Iterator keys = ((Map) minute.getValue()).entrySet().iterator(); keys.hasNext(); ) {
                Map.Entry one = (Map.Entry) keys.next();
                to.begin(kind).putLong(((Long) minute.getKey()).longValue()).putLong(((Long) one.getValue()).longValue());
                to.putBytes(((String) one.getKey()).getBytes(StandardCharsets.UTF_8)).end();
            }
        }
    }

    public byte[] snapshot(Object memory) {
        Block out = new Block(1 << 12);
        ((Memory) memory).times.snapshot(out);
        put(out, COUNTED, ((Memory) memory).minutes);
        return out.toBytes();
    }

    public void restore(Object memory, byte[] snapshot) {
        Memory known = (Memory) memory;
        for (int at = 0; at < snapshot.length; at += Block.length(snapshot, at)) {
            if (Block.kind(snapshot, at) == SourceTimes.TIME) {
                known.times.take(snapshot, at);
            } else {
                known.add(Block.getLong(snapshot, at + TS), snapshot, at + KEY_OF_COUNT,
                    Block.length(snapshot, at) - KEY_OF_COUNT, Block.getLong(snapshot, at + TS + 8));
            }
        }
    }
}
