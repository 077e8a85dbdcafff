package keylane.aggregate;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import keylane.blocks.Block;
import keylane.blocks.BlockStep;
import keylane.blocks.Output;
import keylane.blocks.Slots;

/**
 * The windows of a query in order, numbered. A query is in one lane here, whatever lanes its windows were in; all its
 * windows that are due come in the same batch, and those of a later batch are later windows.
 *
 * <pre>
 *   NEXT   sequence 8 | of corrections 8 | query id, to the end      of a query that had windows in this batch
 * </pre>
 */
public final class Deliver extends BlockStep implements Comparator {
    static final byte NEXT = 1;
    private static final int ID = Block.FIELDS + 16;

    static final class Memory {
        /** Query -> the next number, and that of corrections. */
        final Map next = new TreeMap();
        Block changed = new Block(1 << 10);

        long[] of(String query) {
            long[] known = (long[]) next.get(query);
            if (known == null) {
                known = new long[2];
                next.put(query, known);
            }
            return known;
        }
    }

    public Deliver(Slots slots) {
        super(slots, "deliver");
    }

    public Object empty() {
        return new Memory();
    }

    public int compare(Object one, Object other) {
        return Window.order((Window) one, (Window) other);
    }

    public void take(Object memory, int slot, List blocks, Output out) {
        Memory known = (Memory) memory;
        List results = new ArrayList();
        List corrections = new ArrayList();
        for (int i = 0; i < blocks.size(); i++) {
            byte[] block = (byte[]) blocks.get(i);
            for (int at = 0; at < block.length; at += Block.length(block, at)) {
                byte kind = Block.kind(block, at);
                if (kind == NEXT) {
                    next(known, block, at);
                } else if (kind == Window.RESULT) {
                    results.add(Window.of(block, at));
                } else if (kind == Window.CORRECTION) {
                    corrections.add(Window.of(block, at));
                } else if (out != null) {
                    out.passingTo(slot).copy(block, at);
                }
            }
        }
        known.changed = new Block(1 << 10);
        if (out != null) {
            Map changed = new TreeMap();
            number(known, results, 0, changed, out.passingTo(slot), Rows.RESULT);
            number(known, corrections, 1, changed, out.passingTo(slot), Rows.CORRECTION);
            put(changed, known.changed);
        }
    }

    private void number(Memory known, List windows, int of, Map changed, Block to, byte kind) {
        windows.sort(this);
        for (int at = 0; at < windows.size(); at++) {
            Window window = (Window) windows.get(at);
            long[] next = known.of(window.query);
            changed.put(window.query, next);
            to.begin(kind).putBytes(json(window, next[of]++).getBytes(StandardCharsets.UTF_8)).end();
        }
    }

    private static String json(Window window, long sequence) {
        StringBuilder out = new StringBuilder("[");
        Values.quoted(out, window.query);
        out.append(',').append(window.start).append(',').append(window.end).append(',').append(sequence);
        out.append(',').append(window.events).append(',').append(window.partials).append(",[");
        for (int at = 0; at < window.group.length; at++) {
            out.append(at == 0 ? "" : ",");
            Values.json(out, window.group[at]);
        }
        for (int at = 0; at < window.aggregates.length; at++) {
            out.append(at == 0 && window.group.length == 0 ? "" : ",");
            window.aggregates[at].json(out);
        }
        return out.append("]]").toString();
    }

    public byte[] decided(Object memory) {
        return ((Memory) memory).changed.toBytes();
    }

    private static void put(Map numbers, Block to) {
        for (Iterator all = numbers.entrySet().iterator(); all.hasNext(); ) {
            Map.Entry one = (Map.Entry) all.next();
            long[] next = (long[]) one.getValue();
            byte[] id = ((String) one.getKey()).getBytes(StandardCharsets.UTF_8);
            to.begin(NEXT).putLong(next[0]).putLong(next[1]).putBytes(id).end();
        }
    }

    private static void next(Memory known, byte[] block, int at) {
        String id = new String(block, at + ID, Block.length(block, at) - ID, StandardCharsets.UTF_8);
        long[] next = known.of(id);
        next[0] = Block.getLong(block, at + Block.FIELDS);
        next[1] = Block.getLong(block, at + Block.FIELDS + 8);
    }

    public byte[] snapshot(Object memory) {
        Block out = new Block(1 << 12);
        put(((Memory) memory).next, out);
        return out.toBytes();
    }

    public void restore(Object memory, byte[] snapshot) {
        for (int at = 0; at < snapshot.length; at += Block.length(snapshot, at)) {
            next((Memory) memory, snapshot, at);
        }
    }
}
