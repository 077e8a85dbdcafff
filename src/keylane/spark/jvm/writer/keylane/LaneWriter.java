package keylane;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import org.apache.kafka.common.KafkaException;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * The work of one task of a route into Kafka: rows of one writer, in the source's order, into their lanes.
 *
 * <p>A row is slot, key, value, time, source, headers, part, place, as keylane.spark.messages has it; or, in a last
 * column, the dead letter that is written in its place, a row of the same columns. What comes back is
 * a row for each slot that had records: slot, records, whether they were there before, and the number that was found where
 * it is of a later batch. The rule that makes it exactly
 * once is in Transaction. Compiled where it runs, by the compiler that Spark brings along (keylane.spark.jvm): it
 * knows neither lambdas nor type arguments.
 */
public final class LaneWriter implements MapPartitionsFunction {
    private static final long serialVersionUID = 1L;
    private static final int LETTER = 8;

    private HashMap settings;

    /** A writer of the batch with these settings: the keys are those of Division.settings in keylane.spark.kafka_writer. */
    public static LaneWriter of(HashMap settings) {
        LaneWriter out = new LaneWriter();
        out.settings = settings;
        return out;
    }

    public Iterator call(Iterator rows) throws Exception {
        if (!rows.hasNext()) {
            return Collections.emptyIterator();
        }
        Row first = next(rows);
        Batch batch = new Batch(settings, first);
        return result(written(batch, first, rows));
    }

    private static Row next(Iterator rows) {
        Row row = (Row) rows.next();
        return row.isNullAt(LETTER) ? row : row.getStruct(LETTER);
    }

    private static Delivery written(Batch batch, Row first, Iterator rows) throws Exception {
        long began = System.nanoTime();
        Delivery delivery = null;
        try {
            delivery = batch.exactlyOnce ? new Transaction(batch) : new Delivery(batch, new HashMap());
            delivery.begin();
            delivery.send(first);
            while (rows.hasNext()) {
                delivery.send(next(rows));
            }
            delivery.end();
            return delivery;
        } catch (KafkaException error) {
            giveUp(delivery);
            String largest = delivery == null ? "" : delivery.largest();
            throw WriteError.of(error, batch, (System.nanoTime() - began) / 1000000L, largest);
        } catch (Throwable error) {
            giveUp(delivery);
            throw error;
        } finally {
            if (delivery != null) {
                delivery.close();
            }
        }
    }

    private static void giveUp(Delivery delivery) {
        if (delivery != null) {
            delivery.giveUp();
        }
    }

    private static Iterator result(Delivery delivery) {
        List out = new ArrayList();
        for (int slot = 0; slot < delivery.counts.length; slot++) {
            if (delivery.counts[slot] > 0) {
                Object[] row = {slot, delivery.counts[slot], delivery.isThere(slot), delivery.beyond(slot)};
                out.add(RowFactory.create(row));
            }
        }
        return out.iterator();
    }
}
