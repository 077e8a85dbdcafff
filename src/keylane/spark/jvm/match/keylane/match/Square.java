package keylane.match;

/** Positions in a square of the grid, in no order. */
final class Square {
    final Long key;
    Position[] positions = new Position[2];
    int count;

    Square(Long key) {
        this.key = key;
    }

    void add(Position position) {
        if (count == positions.length) {
            positions = (Position[]) java.util.Arrays.copyOf(positions, count * 2);
        }
        position.square = this;
        position.index = count;
        positions[count++] = position;
    }

    void remove(Position position) {
        Position last = positions[--count];
        positions[position.index] = last;
        last.index = position.index;
        positions[count] = null;
        position.square = null;
    }
}
