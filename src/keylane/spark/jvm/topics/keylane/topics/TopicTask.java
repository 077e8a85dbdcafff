package keylane.topics;

import java.util.HashMap;
import keylane.blocks.RecordPacker;
import org.apache.spark.sql.connector.read.InputPartition;

/** What a task reads. */
final class TopicTask implements InputPartition {
    final String topic;
    final HashMap settings;
    final TopicRange[] ranges;
    final int number;
    final long clock;
    final RecordPacker.Maker packer;

    TopicTask(String topic, HashMap settings, TopicRange[] ranges, int number, long clock, RecordPacker.Maker packer) {
        this.topic = topic;
        this.settings = settings;
        this.ranges = ranges;
        this.number = number;
        this.clock = clock;
        this.packer = packer;
    }
}
