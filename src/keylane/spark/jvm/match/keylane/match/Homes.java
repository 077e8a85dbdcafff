package keylane.match;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import keylane.blocks.Block;
import keylane.blocks.BlockStep;
import keylane.blocks.IdTable;
import keylane.blocks.Output;
import keylane.blocks.SourceTimes;

/**
 * The step by driver and by rider. Pings go on to the slots of their lanes, and a slot that a driver has left gets a
 * tombstone. Requests wait until no ping that bears on them can come any more, then go to every slot that can hold a
 * driver near them. Each slot knows the newest times of all partitions, so all decide the same in the same batch.
 */
public final class Homes extends BlockStep {
    private static final int SAMPLES = 200;

    private final Rules rules;

    public Homes(Rules rules) {
        super(rules.slots, "homes");
        this.rules = rules;
    }

    static final class Memory {
        final IdTable drivers = new IdTable();
        final IdTable requests = new IdTable();
        final SourceTimes times = new SourceTimes();
        final Cover cover;
        final boolean[] lanes;
        long watermark = SourceTimes.BEGINNING;
        long keptFrom = SourceTimes.BEGINNING;
        long ripeBefore = SourceTimes.BEGINNING;
        long sweptAt = SourceTimes.BEGINNING;
        long stays;
        int waiting;
        int batch;

        Memory(Rules rules) {
            cover = new Cover(rules.tables, rules.radius, rules.lanes);
            lanes = new boolean[rules.lanes];
        }
    }

    /** What is counted in a batch. */
    static final class Counts {
        long pings;
        long late;
        long reported;
        long lateRequests;
        long asked;
        long border;
        long copies;
        long tombstones;
        final long[] loads;
        long[] ripe = new long[64];
        int ripeCount;
        long newest = SourceTimes.BEGINNING;

        Counts(int lanes) {
            loads = new long[lanes];
        }

        void ripe(long ts) {
            if (ripeCount == ripe.length) {
                ripe = Arrays.copyOf(ripe, ripeCount * 2);
            }
            ripe[ripeCount++] = ts;
        }
    }

    public Object empty() {
        return new Memory(rules);
    }

    public void take(Object memory, int slot, List blocks, Output out) {
        Memory known = (Memory) memory;
        Counts counts = new Counts(rules.lanes);
        long before = known.watermark;
        long keptBefore = known.keptFrom;
        known.batch++;
        takeTimes(known, blocks);
        List touched = new ArrayList();
        for (int i = 0; i < blocks.size(); i++) {
            byte[] block = (byte[]) blocks.get(i);
            if (Block.isPassing(block)) {
                out.passingTo(0).putBytes(block);
                continue;
            }
            for (int at = 0; at < block.length; at += Block.length(block, at)) {
                byte kind = Block.kind(block, at);
                if (Placed.isPosition(kind)) {
                    counts.late += Placed.ts(block, at) < before ? 1 : 0;
                    ping(known, block, at, out, counts, touched);
                } else if (kind == Placed.REQUEST) {
                    counts.reported++;
                    request(known, block, at, keptBefore, out, counts);
                }
            }
        }
        release(known, out, counts);
        forget(known, touched);
        if (out != null) {
            for (int to = 0; to < slots.count; to++) {
                Placed.putProgress(out.to(to), known.watermark, known.keptFrom);
            }
            Passing.text(out.passingTo(0), Passing.COUNTS, json(known, slot, counts));
        }
    }

    /**
     * The watermark is `late` behind the drivers; lanes remember for requests that are still to come. A batch that is taken
     * again is as far as it was: the rules may have been others then.
     */
    private void takeTimes(Memory known, List blocks) {
        SourceTimes times = known.times;
        times.begin();
        boolean isDecided = false;
        for (int i = 0; i < blocks.size(); i++) {
            byte[] block = (byte[]) blocks.get(i);
            for (int at = 0; !Block.isPassing(block) && at < block.length; at += Block.length(block, at)) {
                if (Block.kind(block, at) == SourceTimes.TIME) {
                    times.take(block, at);
                } else if (Block.kind(block, at) == Placed.DECIDED) {
                    isDecided = true;
                    known.watermark = Placed.watermark(block, at);
                    known.keptFrom = Placed.keptFrom(block, at);
                    known.ripeBefore = Placed.ripeBefore(block, at);
                }
            }
        }
        if (!isDecided) {
            decide(known, times);
        }
    }

    private void decide(Memory known, SourceTimes times) {
        long watermark = Math.max(known.watermark, times.held(Rules.DRIVERS) - rules.late);
        long unread = times.unread(Rules.RIDERS);
        long asked = unread == SourceTimes.UNKNOWN ? times.newest(Rules.RIDERS) : watermark;
        if (unread > 0L) {
            asked = times.held(Rules.RIDERS);
        }
        long kept = Math.max(Math.min(watermark, asked) - rules.late, watermark - Math.max(rules.keep, rules.late));
        // What waits for the end of its window has to find its drivers then, however long windows are.
        known.keptFrom = Math.max(known.keptFrom, Math.min(kept, rules.ripeBefore(watermark)));
        known.watermark = Math.max(watermark, SourceTimes.BEGINNING);
        known.ripeBefore = rules.ripeBefore(known.watermark);
    }

    public byte[] decided(Object memory) {
        Memory known = (Memory) memory;
        Block out = new Block(64);
        Placed.putDecided(out, known.watermark, known.keptFrom, known.ripeBefore);
        return out.toBytes();
    }

    private void ping(Memory known, byte[] block, int at, Output out, Counts counts, List touched) {
        Driver driver = Driver.of(known.drivers, block, at);
        Position position = new Position(block, at);
        counts.pings++;
        counts.loads[position.lane]++;
        counts.newest = Math.max(counts.newest, position.ts);
        int done = driver.add(position, null);
        if (done == Driver.NOTHING) {
            return;
        }
        known.stays += done == Driver.ADDED ? 1 : 0;
        if (driver.touched != known.batch) {
            driver.touched = known.batch;
            touched.add(driver);
        }
        if (out != null) {
            out.to(rules.slotOfLane(position.lane)).copy(block, at);
        }
        left(position.older, position, driver, out, counts);
        left(position, position.newer, driver, out, counts);
        // One that comes late is between two: what was counted of those is not two moves.
        if (position.older != null && position.newer != null && position.older.lane != position.newer.lane) {
            counts.tombstones--;
        }
    }

    /** A driver goes from one position to the next: the lane that it leaves gets a tombstone, if another slot has the next. */
    private void left(Position from, Position to, Driver driver, Output out, Counts counts) {
        if (from == null || to == null || from.lane == to.lane) {
            return;
        }
        counts.tombstones++;
        int slot = rules.slotOfLane(from.lane);
        if (out != null && slot != rules.slotOfLane(to.lane)) {
            byte[] id = driver.id;
            Placed.put(out.to(slot), Placed.LEFT, from.lane, to.ts, to.offset, 0.0, 0.0, id, 0, id.length);
        }
    }

    /** Of several reports of a request the last counts; one that comes after the answer changes nothing. */
    private void request(Memory known, byte[] block, int at, long keptBefore, Output out, Counts counts) {
        if (Placed.ts(block, at) < keptBefore) {
            counts.lateRequests++;
            if (out != null) {
                String letter = Passing.letter("riders", null, "late-request", original(block, at));
                Passing.text(out.passingTo(0), Passing.DEAD, letter);
            }
            return;
        }
        byte[] key = Request.key(block, at);
        int hash = IdTable.hash(key, 0, key.length);
        Request request = (Request) known.requests.find(key, 0, key.length, hash);
        if (request == null) {
            known.requests.add(new Request(key, hash, block, at));
        } else if (!request.answered && Placed.offset(block, at) > request.offset) {
            request.report(block, at);
        }
    }

    private static String original(byte[] block, int at) {
        String rider = Passing.string(block, at + Placed.ID, Placed.idLength(block, at));
        return "{\"rider\":" + Passing.quoted(rider) + ",\"ts\":" + Placed.ts(block, at) + ",\"offset\":"
            + Placed.offset(block, at) + ",\"lat\":" + Placed.lat(block, at) + ",\"lng\":" + Placed.lng(block, at) + "}";
    }

    /** Requests that are ripe are answered; those answered are known for as long as they may be reported again. */
    private void release(Memory known, Output out, Counts counts) {
        IdTable.Item[] all = known.requests.items();
        boolean gone = false;
        known.waiting = 0;
        for (int i = 0; i < all.length; i++) {
            Request request = (Request) all[i];
            if (request == null) {
                continue;
            }
            if (!request.answered && request.ts < known.ripeBefore) {
                request.answered = true;
                counts.ripe(request.ts);
                if (out != null) {
                    send(known, request, out, counts);
                }
            }
            known.waiting += request.answered ? 0 : 1;
            if (request.answered && request.ts < known.keptFrom) {
                request.forget();
                gone = true;
            }
        }
        if (gone) {
            known.requests.sweep();
        }
    }

    private void send(Memory known, Request request, Output out, Counts counts) {
        int many = known.cover.lanes(request.lat, request.lng, known.lanes);
        counts.asked++;
        counts.copies += many;
        counts.border += many > 1 ? 1 : 0;
        boolean[] sent = new boolean[slots.count];
        for (int lane = 0; lane < known.lanes.length; lane++) {
            int slot = rules.slotOfLane(lane);
            if (known.lanes[lane] && !sent[slot]) {
                sent[slot] = true;
                request.put(out.to(slot), Placed.REQUEST, lane);
            }
        }
    }

    /** Of the drivers of this batch now; of all others once in a while, where what is known of them expires. */
    private void forget(Memory known, List touched) {
        for (int i = 0; i < touched.size(); i++) {
            known.stays -= ((Driver) touched.get(i)).trim(known.keptFrom, rules.expire, false, null);
        }
        if (rules.expire >= 0 && known.keptFrom - known.sweptAt > rules.expire) {
            sweep(known);
        }
    }

    private void sweep(Memory known) {
        known.sweptAt = known.keptFrom;
        IdTable.Item[] all = known.drivers.items();
        for (int i = 0; i < all.length; i++) {
            if (all[i] != null) {
                known.stays -= ((Driver) all[i]).trim(known.keptFrom, rules.expire, false, null);
            }
        }
        known.drivers.sweep();
    }

    private String json(Memory known, int slot, Counts counts) {
        StringBuilder out = new StringBuilder("{\"step\":\"homes\"");
        number(out, "pings", counts.pings);
        number(out, "late", counts.late);
        number(out, "reported", counts.reported);
        number(out, "late_requests", counts.lateRequests);
        number(out, "asked", counts.asked);
        number(out, "border", counts.border);
        number(out, "copies", counts.copies);
        number(out, "tombstones", counts.tombstones);
        number(out, "stays", known.stays);
        number(out, "drivers", known.drivers.size());
        number(out, "waiting", known.waiting);
        number(out, "watermark", known.watermark);
        number(out, "kept_from", known.keptFrom);
        number(out, "newest", counts.newest);
        if (rules.tables.length > 1) {
            number(out, "oldest", oldest(known));
        }
        out.append(",\"loads\":{");
        boolean first = true;
        for (int lane = 0; lane < counts.loads.length; lane++) {
            if (counts.loads[lane] > 0) {
                out.append(first ? "\"" : ",\"").append(lane).append("\":").append(counts.loads[lane]);
                first = false;
            }
        }
        out.append('}');
        samples(out, counts);
        if (slot == 0) {
            number(out, "ahead", known.times.ahead[Rules.DRIVERS]);
            number(out, "drivers_read", known.times.records[Rules.DRIVERS]);
            number(out, "riders_read", known.times.records[Rules.RIDERS]);
            out.append(",\"unread\":").append(known.times.unreadByPartition());
        }
        return out.append('}').toString();
    }

    private static void number(StringBuilder out, String name, long value) {
        out.append(",\"").append(name).append("\":").append(value);
    }

    /** The times of the requests that were answered, in order, evenly thinned out. */
    private static void samples(StringBuilder out, Counts counts) {
        long[] ripe = Arrays.copyOf(counts.ripe, counts.ripeCount);
        Arrays.sort(ripe);
        int many = Math.min(SAMPLES, ripe.length);
        number(out, "ripe_count", ripe.length);
        out.append(",\"ripe\":[");
        for (int at = 0; at < many; at++) {
            int index = many == 1 ? 0 : (int) ((long) at * (ripe.length - 1) / (many - 1));
            out.append(at == 0 ? "" : ",").append(ripe[index]);
        }
        out.append(']');
    }

    /** The time of the oldest position that a request may still see; the largest number where there is none. */
    private static long oldest(Memory known) {
        long oldest = Long.MAX_VALUE;
        IdTable.Item[] all = known.drivers.items();
        for (int i = 0; i < all.length; i++) {
            for (Position one = all[i] == null ? null : ((Driver) all[i]).newest; one != null; one = one.older) {
                oldest = Math.min(oldest, one.ts);
            }
        }
        return oldest;
    }

    public byte[] snapshot(Object memory) {
        Memory known = (Memory) memory;
        sweep(known);
        Block out = new Block(1 << 16);
        known.times.snapshot(out);
        Placed.putProgress(out, known.watermark, known.keptFrom);
        IdTable.Item[] drivers = known.drivers.items();
        for (int i = 0; i < drivers.length; i++) {
            if (drivers[i] != null) {
                ((Driver) drivers[i]).snapshot(out);
            }
        }
        IdTable.Item[] requests = known.requests.items();
        for (int i = 0; i < requests.length; i++) {
            if (requests[i] != null) {
                Request request = (Request) requests[i];
                request.put(out, request.answered ? Placed.ANSWERED : Placed.REQUEST, 0);
            }
        }
        return out.toBytes();
    }

    public void restore(Object memory, byte[] snapshot) {
        Memory known = (Memory) memory;
        for (int at = 0; at < snapshot.length; at += Block.length(snapshot, at)) {
            byte kind = Block.kind(snapshot, at);
            if (kind == SourceTimes.TIME) {
                known.times.take(snapshot, at);
            } else if (kind == Placed.PROGRESS) {
                known.watermark = Placed.watermark(snapshot, at);
                known.keptFrom = Placed.keptFrom(snapshot, at);
                known.sweptAt = known.keptFrom;
            } else if (Placed.isPosition(kind)) {
                Driver.of(known.drivers, snapshot, at).add(new Position(snapshot, at), null);
                known.stays++;
            } else {
                byte[] key = Request.key(snapshot, at);
                Request request = new Request(key, IdTable.hash(key, 0, key.length), snapshot, at);
                request.answered = kind == Placed.ANSWERED;
                known.requests.add(request);
            }
        }
    }
}
