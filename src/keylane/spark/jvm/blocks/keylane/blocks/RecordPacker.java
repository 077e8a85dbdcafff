package keylane.blocks;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;

/** Packs records where they are read, so that only blocks go through Spark. One for each task and batch. */
public interface RecordPacker {
    /** Pack a record that is plain; false where it is not. */
    boolean pack(int partition, long offset, byte[] key, byte[] value);

    /** Pack a record by columns of Spark, of its row as the source has it; false where it takes a plan to read it. */
    boolean packRow(InternalRow row);

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
