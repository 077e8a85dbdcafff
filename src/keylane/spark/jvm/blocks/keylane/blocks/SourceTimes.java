package keylane.blocks;

import java.util.Iterator;
import java.util.Map;
import java.util.TreeMap;

/**
 * How far event time has gone in the sources of a query: the watermark in band. Whoever reads a partition of a source
 * sends a TIME record to every slot, so that all slots know the same in the same batch.
 *
 * <pre>
 *   TIME   source 4 | partition 4 | newest 8 | unread 8 | records 8 | ahead 8
 * </pre>
 *
 * `newest` is the time of the newest record, `unread` how many were there and are not in this batch: UNKNOWN for a source
 * that cannot tell, SAME where another record of this batch tells. `records` and `ahead` count: all that were read, and
 * those of a time that cannot be yet, which move no time.
 *
 * <p>Rule: a source is at its newest record; where partitions of it have records that are still unread, at the newest
 * record of the one that is farthest behind, for what comes next there may be no newer. So a backlog that is read
 * partition by partition, one faster than another, counts as if it had been read in order of time. A partition that is
 * read to its end holds nothing back.
 */
public final class SourceTimes {
    public static final byte TIME = 1;
    public static final long UNKNOWN = -1L;
    public static final long SAME = -2L;
    /** Before the first record. */
    public static final long BEGINNING = -(1L << 62);

    private static final int SOURCE = Block.FIELDS;
    private static final int PARTITION = SOURCE + 4;
    private static final int NEWEST = PARTITION + 4;
    private static final int UNREAD = NEWEST + 8;
    private static final int RECORDS = UNREAD + 8;
    private static final int AHEAD = RECORDS + 8;

    private static final class Seen {
        long newest = BEGINNING;
        long unread = UNKNOWN;
    }

    /** By source and partition. */
    private final Map seen = new TreeMap();
    /** What the TIME records since `begin` counted, by source, which are numbered from 0 to 7. */
    public final long[] records = new long[8];
    public final long[] ahead = new long[8];

    public static void put(Block to, int source, int partition, long newest, long unread, long records, long ahead) {
        to.begin(TIME).putInt(source).putInt(partition).putLong(newest).putLong(unread).putLong(records).putLong(ahead);
        to.end();
    }

    private static Long key(int source, int partition) {
        return Long.valueOf((long) source << 32 | partition);
    }

    /** A batch begins: its counts are from zero. */
    public void begin() {
        java.util.Arrays.fill(records, 0L);
        java.util.Arrays.fill(ahead, 0L);
    }

    /** Take a TIME record. */
    public void take(byte[] block, int at) {
        int source = Block.getInt(block, at + SOURCE);
        Long key = key(source, Block.getInt(block, at + PARTITION));
        Seen found = (Seen) seen.get(key);
        if (found == null) {
            found = new Seen();
            seen.put(key, found);
        }
        found.newest = Math.max(found.newest, Block.getLong(block, at + NEWEST));
        long unread = Block.getLong(block, at + UNREAD);
        if (unread != SAME) {
            found.unread = unread;
        }
        records[source] += Block.getLong(block, at + RECORDS);
        ahead[source] += Block.getLong(block, at + AHEAD);
    }

    /** The newest record of a source. */
    public long newest(int source) {
        long newest = BEGINNING;
        for (Iterator all = seen.entrySet().iterator(); all.hasNext(); ) {
            Map.Entry one = (Map.Entry) all.next();
            if (sourceOf(one) == source) {
                newest = Math.max(newest, ((Seen) one.getValue()).newest);
            }
        }
        return newest;
    }

    /** Where a source stands. */
    public long held(int source) {
        long held = newest(source);
        for (Iterator all = seen.entrySet().iterator(); all.hasNext(); ) {
            Map.Entry one = (Map.Entry) all.next();
            Seen found = (Seen) one.getValue();
            if (sourceOf(one) == source && found.unread > 0L) {
                held = Math.min(held, found.newest);
            }
        }
        return held;
    }

    /** Records of a source that are there and not read; UNKNOWN where it cannot tell, or nothing of it was seen. */
    public long unread(int source) {
        long unread = UNKNOWN;
        for (Iterator all = seen.entrySet().iterator(); all.hasNext(); ) {
            Map.Entry one = (Map.Entry) all.next();
            Seen found = (Seen) one.getValue();
            if (sourceOf(one) == source && found.unread >= 0L) {
                unread = Math.max(0L, unread) + found.unread;
            }
        }
        return unread;
    }

    /** Unread records by partition of all sources together, as JSON; null where no source can tell. */
    public String unreadByPartition() {
        Map sums = new TreeMap();
        for (Iterator all = seen.entrySet().iterator(); all.hasNext(); ) {
            Map.Entry one = (Map.Entry) all.next();
            Seen found = (Seen) one.getValue();
            if (found.unread >= 0L) {
                Integer partition = Integer.valueOf(((Long) one.getKey()).intValue());
                Long before = (Long) sums.get(partition);
                sums.put(partition, Long.valueOf(found.unread + (before == null ? 0L : before.longValue())));
            }
        }
        StringBuilder out = new StringBuilder();
        for (Iterator all = sums.entrySet().iterator(); all.hasNext(); ) {
            Map.Entry one = (Map.Entry) all.next();
            out.append(out.length() == 0 ? "{" : ",").append('"').append(one.getKey()).append("\":").append(one.getValue());
        }
        return out.length() == 0 ? "null" : out.append('}').toString();
    }

    private static int sourceOf(Map.Entry one) {
        return (int) (((Long) one.getKey()).longValue() >> 32);
    }

    /** As records that `take` makes the same of. */
    public void snapshot(Block to) {
        for (Iterator all = seen.entrySet().iterator(); all.hasNext(); ) {
            Map.Entry one = (Map.Entry) all.next();
            Seen found = (Seen) one.getValue();
            put(to, sourceOf(one), ((Long) one.getKey()).intValue(), found.newest, found.unread, 0L, 0L);
        }
    }
}
