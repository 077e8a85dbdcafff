package peer;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.LongAdder;

/** How far a run is, for the one who waits for its end: a line of numbers in the order of `toString`. */
final class Counts {
    final LongAdder pings = new LongAdder();
    final LongAdder requests = new LongAdder();
    final LongAdder guests = new LongAdder();
    final LongAdder answered = new LongAdder();
    final LongAdder pairs = new LongAdder();
    final LongAdder arrivedOut = new LongAdder();
    final LongAdder arrivedIn = new LongAdder();
    final LongAdder leftOut = new LongAdder();
    final LongAdder leftIn = new LongAdder();
    private final OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private volatile long first;
    private volatile long cpuAtFirst;
    private volatile long last;

    void began() {
        if (first == 0L) {
            begin();
        }
    }

    private synchronized void begin() {
        if (first == 0L) {
            cpuAtFirst = system.getProcessCpuTime();
            first = System.nanoTime();
            last = first;
        }
    }

    void ended() {
        last = System.nanoTime();
    }

    public String toString() {
        LongAdder[] all = {pings, requests, guests, answered, pairs, arrivedOut, arrivedIn, leftOut, leftIn};
        StringBuilder out = new StringBuilder();
        for (int at = 0; at < all.length; at++) {
            out.append(all[at].sum()).append(' ');
        }
        long cpu = first == 0L ? 0L : system.getProcessCpuTime() - cpuAtFirst;
        return out.append(last - first).append(' ').append(cpu).toString();
    }
}
