package keylane.aggregate;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import keylane.blocks.Block;
import keylane.blocks.BlockStep;
import keylane.blocks.Output;
import keylane.blocks.Slots;

/**
 * The windows of a lane that are open. Parts of windows come from the tasks that matched events; a window is sent on once
 * the watermark of its time field has reached when it is due.
 *
 * <pre>
 *   TIME   partition 4 | newest 8 | name of the time field, to the end       of a partition in this batch, to every lane
 *   END    name of the time field, to the end                                the source has ended: every window is due
 *   MARK   watermark 8 | newest 8 | ended 8 | name of the time field, to the end      of a snapshot
 * </pre>
 *
 * <p>The watermark of a time field is the newest time of the partition that is farthest behind, of those that have events
 * in the batch: a partition with a backlog has some in every batch, and one without holds nobody up. It never goes back. A
 * part of a window is late by the watermark of the batches before its own, so that nothing in a batch is late for another
 * part of it. All lanes get the same TIME records, and have the same watermarks in the same batch.
 */
public final class Windows extends BlockStep {
    static final byte TIME = 1;
    static final byte END = 3;
    static final byte MARK = 4;
    private static final int PARTITION = Block.FIELDS;
    private static final int NEWEST = PARTITION + 4;
    private static final int NAME_OF_TIME = NEWEST + 8;
    private static final int NAME_OF_END = Block.FIELDS;
    private static final int NAME_OF_MARK = Block.FIELDS + 24;
    /** No time is as early: those that are leave no room to count windows in. */
    static final long BEGINNING = -(1L << 62);

    static final class Clock {
        long watermark = BEGINNING;
        long newest = BEGINNING;
        /** The newest time when the source had ended: every window that had begun by then is closed, and no other. */
        long ended = BEGINNING;
        /** Due -> key -> window. */
        final TreeMap open = new TreeMap();
    }

    static final class Memory {
        final Map clocks = new TreeMap();

        Clock clock(String time) {
            Clock found = (Clock) clocks.get(time);
            if (found == null) {
                found = new Clock();
                clocks.put(time, found);
            }
            return found;
        }

        void add(Window part, Window.Key key) {
            TreeMap open = clock(part.time).open;
            Long due = Long.valueOf(part.due);
            Map windows = (Map) open.get(due);
            if (windows == null) {
                windows = new HashMap();
                open.put(due, windows);
            }
            put(windows, part, key);
        }
    }

    static void put(Map windows, Window part, Window.Key key) {
        Window known = (Window) windows.get(key);
        if (known == null) {
            windows.put(key, part);
        } else {
            known.merge(part);
        }
    }

    public Windows(Slots slots) {
        super(slots, "windows");
    }

    public Object empty() {
        return new Memory();
    }

    public void take(Object memory, int slot, List blocks, Output out) {
        Memory known = (Memory) memory;
        Map late = new HashMap();
        Counts counts = new Counts();
        Set ends = new HashSet();
        for (int i = 0; i < blocks.size(); i++) {
            byte[] block = (byte[]) blocks.get(i);
            for (int at = 0; at < block.length; at += Block.length(block, at)) {
                byte kind = Block.kind(block, at);
                if (kind >= Block.PASSING) {
                    if (out != null) {
                        out.passingTo(0).copy(block, at);
                    }
                } else if (kind == Window.WINDOW) {
                    Window part = Window.of(block, at);
                    counts.events += part.events;
                    counts.parts++;
                    Clock clock = known.clock(part.time);
                    if (part.due > clock.watermark && part.start > clock.ended) {
                        known.add(part, new Window.Key(block, at));
                    } else {
                        counts.late(part);
                        if (part.corrects) {
                            put(late, part, new Window.Key(block, at));
                        }
                    }
                } else if (kind == TIME) {
                    Clock clock = known.clock(name(block, at, NAME_OF_TIME));
                    long newest = Block.getLong(block, at + NEWEST);
                    Integer partition = Integer.valueOf(Block.getInt(block, at + PARTITION));
                    clock.newest = Math.max(clock.newest, newest);
                    counts.reached(name(block, at, NAME_OF_TIME), partition, newest);
                } else if (kind == END) {
                    ends.add(name(block, at, NAME_OF_END));
                }
            }
        }
        for (Iterator all = known.clocks.entrySet().iterator(); all.hasNext(); ) {
            Map.Entry one = (Map.Entry) all.next();
            Clock clock = (Clock) one.getValue();
            clock.watermark = Math.max(clock.watermark, counts.behind((String) one.getKey()));
            if (ends.contains(one.getKey())) {
                clock.watermark = Math.max(clock.watermark, clock.newest);
                clock.ended = clock.newest;
            }
            SortedMap due = ends.contains(one.getKey()) ? new TreeMap(clock.open)
                : clock.open.headMap(Long.valueOf(clock.watermark + 1L));
            for (Iterator times = out == null ? null : due.values().iterator(); times != null && times.hasNext(); ) {
                send(((Map) times.next()).values(), out, Window.RESULT);
            }
            if (ends.contains(one.getKey())) {
                clock.open.clear();
            } else {
                due.clear();
            }
        }
        if (out != null) {
            send(late.values(), out, Window.CORRECTION);
            out.passingTo(0).begin(Block.COUNTS).putBytes(counts.json(slot, known).getBytes(StandardCharsets.UTF_8)).end();
        }
    }

    private void send(java.util.Collection windows, Output out, byte kind) {
        for (Iterator all = windows.iterator(); all.hasNext(); ) {
            Window window = (Window) all.next();
            window.put(out.passingTo(QueryLanes.hash(window.query) % slots.count), kind);
        }
    }

    private static String name(byte[] block, int at, int from) {
        return new String(block, at + from, Block.length(block, at) - from, StandardCharsets.UTF_8);
    }

    static void time(Block to, String name, int partition, long newest) {
        to.begin(TIME).putInt(partition).putLong(newest).putBytes(name.getBytes(StandardCharsets.UTF_8)).end();
    }

    static void end(Block to, String name) {
        to.begin(END).putBytes(name.getBytes(StandardCharsets.UTF_8)).end();
    }

    public byte[] snapshot(Object memory) {
        Block out = new Block(1 << 12);
        for (Iterator all = ((Memory) memory).clocks.entrySet().iterator(); all.hasNext(); ) {
            Map.Entry one = (Map.Entry) all.next();
            Clock clock = (Clock) one.getValue();
            byte[] name = ((String) one.getKey()).getBytes(StandardCharsets.UTF_8);
            out.begin(MARK).putLong(clock.watermark).putLong(clock.newest).putLong(clock.ended).putBytes(name).end();
            for (Iterator times = clock.open.values().iterator(); times.hasNext(); ) {
                for (Iterator windows = ((Map) times.next()).values().iterator(); windows.hasNext(); ) {
                    ((Window) windows.next()).put(out, Window.WINDOW);
                }
            }
        }
        return out.toBytes();
    }

    public void restore(Object memory, byte[] snapshot) {
        Memory known = (Memory) memory;
        for (int at = 0; at < snapshot.length; at += Block.length(snapshot, at)) {
            if (Block.kind(snapshot, at) == MARK) {
                Clock clock = known.clock(name(snapshot, at, NAME_OF_MARK));
                clock.watermark = Block.getLong(snapshot, at + Block.FIELDS);
                clock.newest = Block.getLong(snapshot, at + Block.FIELDS + 8);
                clock.ended = Block.getLong(snapshot, at + Block.FIELDS + 16);
            } else {
                known.add(Window.of(snapshot, at), new Window.Key(snapshot, at));
            }
        }
    }

    /** What a batch came to in a lane. */
    private static final class Counts {
        long events;
        long parts;
        /** Query -> events that were late, dropped, and in corrections. */
        private final Map late = new TreeMap();
        /** Time field -> partition -> newest. */
        private final Map reached = new TreeMap();

        void late(Window part) {
            long[] known = (long[]) late.get(part.query);
            if (known == null) {
                known = new long[2];
                late.put(part.query, known);
            }
            known[part.corrects ? 1 : 0] += part.events;
        }

        void reached(String time, Integer partition, long newest) {
            Map partitions = (Map) reached.get(time);
            if (partitions == null) {
                partitions = new TreeMap();
                reached.put(time, partitions);
            }
            Long before = (Long) partitions.get(partition);
            partitions.put(partition, Long.valueOf(before == null ? newest : Math.max(before.longValue(), newest)));
        }

        long behind(String time) {
            Map partitions = (Map) reached.get(time);
            long behind = Long.MAX_VALUE;
            for (Iterator all = partitions == null ? null : partitions.values().iterator(); all != null && all.hasNext(); ) {
                behind = Math.min(behind, ((Long) all.next()).longValue());
            }
            return behind == Long.MAX_VALUE ? BEGINNING : behind;
        }

        String json(int slot, Memory known) {
            StringBuilder out = new StringBuilder("{\"step\":\"windows\",\"lane\":").append(slot);
            out.append(",\"events\":").append(events).append(",\"parts\":").append(parts).append(",\"late\":{");
            for (Iterator all = late.entrySet().iterator(); all.hasNext(); ) {
                Map.Entry one = (Map.Entry) all.next();
                Values.quoted(out, (String) one.getKey());
                long[] many = (long[]) one.getValue();
                out.append(":[").append(many[0]).append(',').append(many[1]).append(all.hasNext() ? "]," : "]");
            }
            out.append("},\"times\":{");
            for (Iterator all = known.clocks.entrySet().iterator(); all.hasNext(); ) {
                Map.Entry one = (Map.Entry) all.next();
                Clock clock = (Clock) one.getValue();
                long open = 0L;
                for (Iterator times = clock.open.values().iterator(); times.hasNext(); ) {
                    open += ((Map) times.next()).size();
                }
                Values.quoted(out, (String) one.getKey());
                out.append(":{\"watermark\":").append(clock.watermark).append(",\"newest\":").append(clock.newest);
                out.append(",\"open\":").append(open).append(all.hasNext() ? "}," : "}");
            }
            return out.append("}}").toString();
        }
    }
}
