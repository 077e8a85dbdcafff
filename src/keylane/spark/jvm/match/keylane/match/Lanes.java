package keylane.match;

import java.util.ArrayList;
import java.util.List;
import keylane.blocks.Block;
import keylane.blocks.BlockStep;
import keylane.blocks.IdTable;
import keylane.blocks.Output;
import keylane.blocks.SourceTimes;

/**
 * The step by lane, where slot i has every lane whose number is i modulo the slots: positions of drivers, and the answers
 * to requests as of their own moments. A position is in the grid until no request can see it any more, so that a request
 * of any moment that is remembered is answered alike, whenever it comes.
 */
public final class Lanes extends BlockStep {
    private final Rules rules;

    public Lanes(Rules rules) {
        super(rules.slots, "lanes");
        this.rules = rules;
    }

    static final class Memory {
        final IdTable drivers = new IdTable();
        final Grid grid;
        /** Requests that were answered and may still be asked about, the oldest first. */
        List answered = new ArrayList();
        long watermark = SourceTimes.BEGINNING;
        long keptFrom = SourceTimes.BEGINNING;
        long sweptAt = SourceTimes.BEGINNING;
        long entries;
        int batch;

        Memory(double radius) {
            grid = new Grid(radius);
        }
    }

    /** A request as a lane remembers it. */
    static final class Asked implements Comparable {
        final byte[] record;

        Asked(byte[] block, int at) {
            record = java.util.Arrays.copyOfRange(block, at, at + Block.length(block, at));
        }

        long ts() {
            return Placed.ts(record, 0);
        }

        public int compareTo(Object other) {
            return Long.compare(ts(), ((Asked) other).ts());
        }
    }

    public Object empty() {
        return new Memory(rules.radius);
    }

    public void take(Object memory, int slot, List blocks, Output out) {
        Memory known = (Memory) memory;
        long before = known.watermark;
        known.batch++;
        List asked = new ArrayList();
        List touched = new ArrayList();
        long changed = 0;
        for (int i = 0; i < blocks.size(); i++) {
            byte[] block = (byte[]) blocks.get(i);
            if (Block.isPassing(block)) {
                out.passingTo(0).putBytes(block);
                continue;
            }
            for (int at = 0; at < block.length; at += Block.length(block, at)) {
                byte kind = Block.kind(block, at);
                if (kind == Placed.PROGRESS) {
                    known.watermark = Math.max(known.watermark, Placed.watermark(block, at));
                    known.keptFrom = Math.max(known.keptFrom, Placed.keptFrom(block, at));
                } else if (kind == Placed.REQUEST) {
                    asked.add(new Asked(block, at));
                } else {
                    changed += position(known, block, at, before, out != null, touched);
                }
            }
        }
        for (int i = 0; out != null && rules.matching && i < asked.size(); i++) {
            new Answer(((Asked) asked.get(i)).record, rules, out).find(known.grid);
        }
        forget(known, touched, asked);
        if (out != null) {
            String counts = "{\"step\":\"lanes\",\"entries\":" + known.entries + ",\"changed\":" + changed + "}";
            Passing.text(out.passingTo(0), Passing.COUNTS, counts);
        }
    }

    /** Put a position in its order; 1 where it would have changed an answer that was given before, else 0. */
    private int position(Memory known, byte[] block, int at, long before, boolean counts, List touched) {
        Driver driver = Driver.of(known.drivers, block, at);
        Position position = new Position(block, at);
        int done = driver.add(position, known.grid);
        if (done == Driver.NOTHING) {
            return 0;
        }
        known.entries += done == Driver.ADDED ? 1 : 0;
        if (position.kind == Placed.AVAILABLE) {
            known.grid.add(position);
        }
        if (driver.touched != known.batch) {
            driver.touched = known.batch;
            touched.add(driver);
        }
        boolean isLate = counts && position.kind != Placed.LEFT && position.ts < before;
        return isLate && wouldChange(known, position) ? 1 : 0;
    }

    private boolean wouldChange(Memory known, Position late) {
        long end = late.newer == null ? Long.MAX_VALUE : late.newer.ts;
        for (int i = firstFrom(known.answered, late.ts); i < known.answered.size(); i++) {
            Asked asked = (Asked) known.answered.get(i);
            if (asked.ts() >= end) {
                return false;
            }
            if (Answer.isPair(asked.record, late, rules) || late.older != null && Answer.isPair(asked.record, late.older, rules)) {
                return true;
            }
        }
        return false;
    }

    private static int firstFrom(List answered, long ts) {
        int low = 0;
        int high = answered.size();
        while (low < high) {
            int middle = (low + high) >>> 1;
            if (((Asked) answered.get(middle)).ts() < ts) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    private void forget(Memory known, List touched, List asked) {
        for (int i = 0; i < touched.size(); i++) {
            known.entries -= ((Driver) touched.get(i)).trim(known.keptFrom, rules.expire, true, known.grid);
        }
        List answered = new ArrayList();
        remember(known.answered, known.keptFrom, answered);
        remember(asked, known.keptFrom, answered);
        if (!asked.isEmpty()) {
            java.util.Collections.sort(answered);
        }
        known.answered = answered;
        if (rules.expire >= 0 && known.keptFrom - known.sweptAt > rules.expire) {
            sweep(known);
        }
    }

    private static void remember(List from, long keptFrom, List to) {
        for (int i = 0; i < from.size(); i++) {
            if (((Asked) from.get(i)).ts() >= keptFrom) {
                to.add(from.get(i));
            }
        }
    }

    private void sweep(Memory known) {
        known.sweptAt = known.keptFrom;
        IdTable.Item[] all = known.drivers.items();
        for (int i = 0; i < all.length; i++) {
            if (all[i] != null) {
                known.entries -= ((Driver) all[i]).trim(known.keptFrom, rules.expire, true, known.grid);
            }
        }
        known.drivers.sweep();
    }

    public byte[] snapshot(Object memory) {
        Memory known = (Memory) memory;
        sweep(known);
        Block out = new Block(1 << 16);
        Placed.putProgress(out, known.watermark, known.keptFrom);
        IdTable.Item[] drivers = known.drivers.items();
        for (int i = 0; i < drivers.length; i++) {
            if (drivers[i] != null) {
                ((Driver) drivers[i]).snapshot(out);
            }
        }
        for (int i = 0; i < known.answered.size(); i++) {
            out.putBytes(((Asked) known.answered.get(i)).record);
        }
        return out.toBytes();
    }

    public void restore(Object memory, byte[] snapshot) {
        Memory known = (Memory) memory;
        for (int at = 0; at < snapshot.length; at += Block.length(snapshot, at)) {
            byte kind = Block.kind(snapshot, at);
            if (kind == Placed.PROGRESS) {
                known.watermark = Placed.watermark(snapshot, at);
                known.keptFrom = Placed.keptFrom(snapshot, at);
                known.sweptAt = known.keptFrom;
            } else if (kind == Placed.REQUEST) {
                known.answered.add(new Asked(snapshot, at));
            } else {
                Position position = new Position(snapshot, at);
                Driver.of(known.drivers, snapshot, at).add(position, known.grid);
                known.entries++;
                if (position.kind == Placed.AVAILABLE) {
                    known.grid.add(position);
                }
            }
        }
    }
}
