package keylane.match;

import keylane.blocks.Block;
import keylane.blocks.IdTable;

/** A driver as one slot knows it: its positions in the order of time, each (ts, offset) once. */
final class Driver extends IdTable.Item {
    static final int NOTHING = 0;
    static final int ADDED = 1;
    static final int REPLACED = 2;

    Position newest;
    /** The batch that it was last touched in: so that it is looked at once. */
    int touched = -1;

    Driver(byte[] block, int at, int length, int hash) {
        super(block, at, length, hash);
    }

    public boolean isGone() {
        return newest == null;
    }

    /** The driver of a record, made where it is not known. */
    static Driver of(IdTable drivers, byte[] block, int at) {
        int length = Placed.idLength(block, at);
        int hash = IdTable.hash(block, at + Placed.ID, length);
        Driver found = (Driver) drivers.find(block, at + Placed.ID, length, hash);
        if (found == null) {
            found = new Driver(block, at + Placed.ID, length, hash);
            drivers.add(found);
        }
        return found;
    }

    /** Put a position in its order: NOTHING where one with the same ts and offset is there that counts as much. */
    int add(Position position, Grid grid) {
        Position newer = null;
        Position at = newest;
        while (at != null && at.isAfter(position)) {
            newer = at;
            at = at.older;
        }
        if (newer != null && newer.ts == position.ts && newer.offset == position.offset) {
            return NOTHING;
        }
        int done = ADDED;
        if (at != null && at.ts == position.ts && at.offset == position.offset) {
            if (at.kind >= position.kind) {
                return NOTHING;
            }
            done = REPLACED;
            if (grid != null) {
                grid.remove(at);
            }
            at = at.older;
        }
        position.driver = this;
        position.older = at;
        position.newer = newer;
        if (newer == null) {
            newest = position;
        } else {
            newer.older = position;
        }
        if (at != null) {
            at.newer = position;
        }
        return done;
    }

    /** The position at a moment; null where none is known. */
    Position seenAt(long moment) {
        Position at = newest;
        while (at != null && at.ts > moment) {
            at = at.older;
        }
        return at;
    }

    /**
     * Forget what no request at `from` or later can see, nor anything that hides something from one; how many positions
     * that were. `expire` is negative where positions do not expire.
     */
    int trim(long from, long expire, boolean ofLane, Grid grid) {
        Position at = seenAt(from);
        if (at == null) {
            return 0;
        }
        boolean old = expire >= 0 && at.ts < from - expire;
        boolean gone = old || ofLane && at.kind == Placed.LEFT;
        Position first = gone ? at : at.older;
        int many = 0;
        for (Position one = first; one != null; one = one.older) {
            many++;
            if (grid != null) {
                grid.remove(one);
            }
        }
        if (gone && at.newer == null) {
            newest = null;
        } else if (gone) {
            at.newer.older = null;
        } else {
            at.older = null;
        }
        return many;
    }

    /** All positions, the oldest first. */
    void snapshot(Block to) {
        Position oldest = newest;
        while (oldest != null && oldest.older != null) {
            oldest = oldest.older;
        }
        for (Position one = oldest; one != null; one = one.newer) {
            Placed.put(to, one.kind, one.lane, one.ts, one.offset, one.lat, one.lng, id, 0, id.length);
        }
    }
}
