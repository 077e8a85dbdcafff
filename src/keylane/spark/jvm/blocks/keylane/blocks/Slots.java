package keylane.blocks;

import java.io.Serializable;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;

/**
 * The slots that the state of a step is divided into: as many as Spark's shuffle partitions, and slot i is in partition
 * i. Spark puts a group into the partition that the hash of its key says, so the key of slot i is the smallest whole
 * number whose hash is i; equal to keylane.placement.lane_keys. How many there are is fixed when a query first starts.
 */
public final class Slots implements Serializable {
    private static final int SEED = 42;

    public final int count;
    private final int[] keys;

    public Slots(int count) {
        this.count = count;
        keys = new int[count];
        boolean[] found = new boolean[count];
        for (int key = 0, left = count; left > 0; key++) {
            int slot = Math.floorMod(Murmur3_x86_32.hashInt(key, SEED), count);
            if (!found[slot]) {
                found[slot] = true;
                keys[slot] = key;
                left--;
            }
        }
    }

    public int key(int slot) {
        return keys[slot];
    }

    /** The slot of a key; -1 for a number that is none. */
    public int slotOfKey(int key) {
        for (int slot = 0; slot < count; slot++) {
            if (keys[slot] == key) {
                return slot;
            }
        }
        return -1;
    }

    /** The slot of an id, by its hash in an IdTable: by other bits of it than those that its place in a table has. */
    public int slotOfHash(int hash) {
        return (hash >>> 8) % count;
    }
}
