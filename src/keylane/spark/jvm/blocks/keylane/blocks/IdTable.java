package keylane.blocks;

import java.util.Arrays;

/** Objects by an id that lies in a block: to look one up makes no object. Open addressing, at most half full. */
public final class IdTable {
    private static final int LEAST = 64;

    /** What a table holds: an id, and whatever a subclass knows of it. */
    public static class Item {
        public final byte[] id;
        public final int hash;

        public Item(byte[] block, int at, int length, int hash) {
            this.id = Arrays.copyOfRange(block, at, at + length);
            this.hash = hash;
        }

        /** Whether `sweep` is to drop it. */
        public boolean isGone() {
            return false;
        }
    }

    private Item[] items = new Item[LEAST];
    private int size;

    public static int hash(byte[] block, int at, int length) {
        int hash = length;
        for (int i = at; i < at + length; i++) {
            hash = hash * 31 + block[i];
        }
        hash *= 0x9E3779B1;
        return hash ^ (hash >>> 15);
    }

    public Item find(byte[] block, int at, int length, int hash) {
        int mask = items.length - 1;
        for (int i = hash & mask; items[i] != null; i = (i + 1) & mask) {
            if (items[i].hash == hash && isSame(items[i].id, block, at, length)) {
                return items[i];
            }
        }
        return null;
    }

    public static boolean isSame(byte[] id, byte[] block, int at, int length) {
        return id.length == length && Arrays.equals(id, 0, length, block, at, at + length);
    }

    /** Add an item that is not there. */
    public void add(Item item) {
        if (size * 2 >= items.length) {
            rebuild(items.length * 2, false);
        }
        place(item);
        size++;
    }

    public int size() {
        return size;
    }

    /** Drop the items that are gone. */
    public void sweep() {
        int left = 0;
        for (int i = 0; i < items.length; i++) {
            if (items[i] != null && !items[i].isGone()) {
                left++;
            }
        }
        int capacity = LEAST;
        while (capacity < left * 4) {
            capacity *= 2;
        }
        size = left;
        rebuild(capacity, true);
    }

    private void rebuild(int capacity, boolean withoutGone) {
        Item[] before = items;
        items = new Item[capacity];
        for (int i = 0; i < before.length; i++) {
            if (before[i] != null && !(withoutGone && before[i].isGone())) {
                place(before[i]);
            }
        }
    }

    private void place(Item item) {
        int mask = items.length - 1;
        int i = item.hash & mask;
        while (items[i] != null) {
            i = (i + 1) & mask;
        }
        items[i] = item;
    }

    /** All items, with nulls between them. */
    public Item[] items() {
        return items;
    }
}
