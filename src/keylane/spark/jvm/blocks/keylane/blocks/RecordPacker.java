package keylane.blocks;

import java.io.Serializable;
import java.util.List;

/** Packs records where they are read, so that only blocks go through Spark. One for each task and batch. */
public interface RecordPacker {
    /** Pack a record; false where it has to be read by Spark, with all that Spark knows. */
    boolean pack(int partition, long offset, byte[] key, byte[] value);

    /** A partition is read as far as this batch goes: so many records of it were there and are not in it. */
    void end(int partition, long unread);

    /** Rows of a key and a block. */
    List rows();

    /** Makes them; travels with the tasks. */
    public interface Maker extends Serializable {
        /** `clock` is that of the batch, in microseconds: the same when the batch is made again. */
        RecordPacker packer(long clock);
    }
}
