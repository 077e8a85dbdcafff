package keylane.blocks;

import java.util.ArrayList;
import java.util.List;
import scala.Tuple2;

/** What a step sends to the slots of the next one: two blocks for each, records of state and records that pass. */
public final class Output {
    private final Slots slots;
    private final Block[] kept;
    private final Block[] passing;

    public Output(Slots slots) {
        this.slots = slots;
        kept = new Block[slots.count];
        passing = new Block[slots.count];
    }

    public Block to(int slot) {
        return in(kept, slot);
    }

    public Block passingTo(int slot) {
        return in(passing, slot);
    }

    private static Block in(Block[] blocks, int slot) {
        if (blocks[slot] == null) {
            blocks[slot] = new Block(1 << 12);
        }
        return blocks[slot];
    }

    /** Rows of Spark: the key of the slot, and the block. */
    public List rows() {
        List out = new ArrayList();
        add(kept, out);
        add(passing, out);
        return out;
    }

    private void add(Block[] blocks, List out) {
        for (int slot = 0; slot < blocks.length; slot++) {
            if (blocks[slot] != null && blocks[slot].length() > 0) {
                out.add(new Tuple2(Integer.valueOf(slots.key(slot)), blocks[slot].toBytes()));
            }
        }
    }
}
