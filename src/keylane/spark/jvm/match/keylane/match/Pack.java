package keylane.match;

import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import keylane.blocks.Block;
import keylane.blocks.IdTable;
import keylane.blocks.Output;
import keylane.blocks.SourceTimes;

/**
 * Records of one source -> blocks for the slots of their drivers or riders: good ones with their lanes, the others as dead
 * letters, and how far time has gone in each partition, for every slot.
 */
public final class Pack {
    private final Rules rules;
    private final int source;
    private final Output out;
    /** Partition -> newest ts, records, records ahead, unread. */
    private final Map partitions = new TreeMap();
    private int partition = -1;
    private long[] seen;
    private final long unread;

    /** `unread` is for partitions without an `end`: UNKNOWN or SAME, as SourceTimes has it. */
    public Pack(Rules rules, int source, long unread) {
        this.rules = rules;
        this.source = source;
        this.unread = unread;
        out = new Output(rules.slots);
    }

    private void open(int number) {
        if (number != partition) {
            partition = number;
            seen = (long[]) partitions.get(Integer.valueOf(number));
            if (seen == null) {
                seen = new long[] {SourceTimes.BEGINNING, 0L, 0L, unread};
                partitions.put(Integer.valueOf(number), seen);
            }
        }
    }

    /** A record of this partition follows. */
    public void from(int number) {
        open(number);
        seen[1]++;
    }

    /** So many records of a partition were there and are not read. */
    public void end(int number, long left) {
        open(number);
        seen[3] = left;
    }

    /** A good record of a partition, unless it is one that is not: nothing is then counted. */
    public boolean fromPacked(
        int number, byte[] id, int at, int length, long ts, long offset, double lat, double lng, boolean available, long clock) {
        open(number);
        boolean done = good(id, at, length, ts, offset, lat, lng, available, clock);
        seen[1] += done ? 1 : 0;
        return done;
    }

    /** A good record; false for one of a time that cannot be yet, a dead letter: it would be kept until that time. */
    public boolean good(byte[] id, int at, int length, long ts, long offset, double lat, double lng, boolean available, long clock) {
        if (ts > clock + rules.ahead) {
            return false;
        }
        int lane = rules.current().lane(Cells.home(lat, lng));
        byte kind = source == Rules.RIDERS ? Placed.REQUEST : available ? Placed.AVAILABLE : Placed.UNAVAILABLE;
        int slot = rules.slots.slotOfHash(IdTable.hash(id, at, length));
        Placed.put(out.to(slot), kind, lane, ts, offset, lat, lng, id, at, length);
        seen[0] = Math.max(seen[0], ts);
        return true;
    }

    public void good(String id, long ts, long offset, double lat, double lng, boolean available, long clock, String where, String original) {
        byte[] bytes = id.getBytes(StandardCharsets.UTF_8);
        if (!good(bytes, 0, bytes.length, ts, offset, lat, lng, available, clock)) {
            seen[2]++;
            dead(where, "time-ahead", original);
        }
    }

    public void dead(String where, String reason, String original) {
        String side = source == Rules.RIDERS ? "riders" : "drivers";
        Passing.text(out.passingTo(0), Passing.DEAD, Passing.letter(side, where, reason, original));
    }

    /** The blocks, with the times of the partitions for every slot. */
    public List rows() {
        for (Iterator all = partitions.entrySet().iterator(); all.hasNext(); ) {
            Map.Entry one = (Map.Entry) all.next();
            long[] found = (long[]) one.getValue();
            int number = ((Integer) one.getKey()).intValue();
            for (int slot = 0; slot < rules.slots.count; slot++) {
                SourceTimes.put(out.to(slot), source, number, found[0], found[3], found[1], found[2]);
            }
        }
        return out.rows();
    }
}
