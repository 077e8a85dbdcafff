package keylane.topics;

import java.io.Serializable;

/** Records of a partition: from an offset up to another, and how many more were there. */
final class TopicRange implements Serializable {
    final int partition;
    final long from;
    final long to;
    final long unread;

    TopicRange(int partition, long from, long to, long unread) {
        this.partition = partition;
        this.from = from;
        this.to = to;
        this.unread = unread;
    }
}
