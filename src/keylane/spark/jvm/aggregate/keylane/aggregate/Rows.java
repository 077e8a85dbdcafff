package keylane.aggregate;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import keylane.blocks.Block;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import scala.Tuple2;

/** What the steps have sent as rows of a kind and a JSON text: results, corrections, counts and dead letters. */
public final class Rows implements MapPartitionsFunction {
    static final String SCHEMA = "kind int, text string";
    static final byte RESULT = Block.PASSING + 4;
    static final byte CORRECTION = Block.PASSING + 5;
    static final byte DEAD = Block.PASSING + 6;

    public Iterator call(Iterator blocks) {
        List rows = new ArrayList();
        while (blocks.hasNext()) {
            byte[] block = (byte[]) ((Tuple2) blocks.next())._2();
            for (int at = 0; at < block.length; at += Block.length(block, at)) {
                int length = Block.length(block, at) - Block.FIELDS;
                String text = new String(block, at + Block.FIELDS, length, StandardCharsets.UTF_8);
                rows.add(RowFactory.create(new Object[] {Integer.valueOf(Block.kind(block, at)), text}));
            }
        }
        return rows.iterator();
    }
}
