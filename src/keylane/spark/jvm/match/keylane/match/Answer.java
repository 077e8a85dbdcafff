package keylane.match;

import keylane.blocks.Block;
import keylane.blocks.IdTable;
import keylane.blocks.Output;

/** The answer of one slot to a request: every driver near it at its moment, as a PAIR record for the rider's slot. */
final class Answer implements Grid.Visitor {
    private final byte[] request;
    private final Rules rules;
    private final long ts;
    private final double lat;
    private final double lng;
    private final int riderLength;
    private final Block to;

    Answer(byte[] request, Rules rules, Output out) {
        this.request = request;
        this.rules = rules;
        ts = Placed.ts(request, 0);
        lat = Placed.lat(request, 0);
        lng = Placed.lng(request, 0);
        riderLength = Placed.idLength(request, 0);
        to = out.passingTo(rules.slots.slotOfHash(IdTable.hash(request, Placed.ID, riderLength)));
    }

    void find(Grid grid) {
        grid.search(lat, lng, this);
    }

    public void visit(Position position) {
        if (!position.isSeenAt(ts) || rules.expire >= 0 && ts - position.ts > rules.expire) {
            return;
        }
        double metres = Sphere.metres(position.lat, position.lng, lat, lng);
        if (metres <= rules.radius) {
            to.begin(Passing.PAIR).putLong(ts).putLong(Placed.offset(request, 0)).putLong(position.ts);
            to.putLong(position.offset).putDouble(metres).putInt(riderLength);
            to.putBytes(request, Placed.ID, riderLength).putBytes(position.driver.id);
            to.end();
        }
    }

    /** Whether a request and a position, seen at its moment, are a pair. */
    static boolean isPair(byte[] request, Position position, Rules rules) {
        if (position.kind != Placed.AVAILABLE) {
            return false;
        }
        if (rules.expire >= 0 && Placed.ts(request, 0) - position.ts > rules.expire) {
            return false;
        }
        double metres = Sphere.metres(position.lat, position.lng, Placed.lat(request, 0), Placed.lng(request, 0));
        return metres <= rules.radius;
    }
}
