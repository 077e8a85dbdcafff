package keylane.topics;

import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/** Makes the readers of tasks. */
final class TopicReaders implements PartitionReaderFactory {
    public PartitionReader createReader(InputPartition task) {
        return new TopicReader((TopicTask) task);
    }
}
