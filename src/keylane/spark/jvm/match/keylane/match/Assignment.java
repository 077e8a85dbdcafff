package keylane.match;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.PriorityQueue;

/**
 * Which drivers get which requests, of pairs in the order of requests and, within one, of distance; equal to
 * keylane.matching.assign, where both ways are described.
 *
 * <p>Greedy: a request takes its nearest driver that is free. Optimal: the most requests served, and of such choices the
 * least sum of distances. Requests are added one by one; each takes the shortest path of exchanges that ends at a free
 * driver, or at being left unserved, which costs more than all that could be saved by it. Worked example: rider 1 is
 * 100 m from a and 200 m from b, rider 2 is 150 m from a only. Rider 1 takes a; then rider 2 takes a, and rider 1 goes to b.
 */
public final class Assignment {
    private final int[] request;
    private final int[] driver;
    private final double[] metres;
    private final int requests;
    private final int drivers;
    /** Pairs of request i: from begin[i] up to begin[i + 1]. */
    private final int[] begin;

    public Assignment(int[] request, int[] driver, double[] metres) {
        this.request = request;
        this.driver = driver;
        this.metres = metres;
        requests = request.length == 0 ? 0 : request[request.length - 1] + 1;
        int most = -1;
        for (int row = 0; row < driver.length; row++) {
            most = Math.max(most, driver[row]);
        }
        drivers = most + 1;
        begin = new int[requests + 1];
        for (int row = request.length - 1; row >= 0; row--) {
            begin[request[row]] = row;
        }
        begin[requests] = request.length;
    }

    /** The pair of each request; -1 where it gets none. */
    public int[] greedy() {
        int[] chosen = new int[requests];
        boolean[] busy = new boolean[drivers];
        for (int i = 0; i < requests; i++) {
            chosen[i] = -1;
            for (int row = begin[i]; row < begin[i + 1] && chosen[i] < 0; row++) {
                if (!busy[driver[row]]) {
                    busy[driver[row]] = true;
                    chosen[i] = row;
                }
            }
        }
        return chosen;
    }

    private static final class Reached implements Comparable {
        final double distance;
        final int end;

        Reached(double distance, int end) {
            this.distance = distance;
            this.end = end;
        }

        public int compareTo(Object other) {
            Reached that = (Reached) other;
            int order = Double.compare(distance, that.distance);
            return order != 0 ? order : Integer.compare(end, that.end);
        }
    }

    // Ends of a path are drivers, and behind them, for each request, to be left unserved.
    private double unserved;
    private double[] priceOfRequest;
    private double[] priceOfEnd;
    private int[] endOf;
    private int[] rowOf;
    private int[] holder;
    private double[] distance;
    private int[] cameFrom;
    private int[] cameBy;
    private boolean[] isDone;
    private List touched;

    /** The pair of each request; -1 where it gets none. */
    public int[] optimal() {
        double most = 0.0;
        for (int row = 0; row < metres.length; row++) {
            most = Math.max(most, metres[row]);
        }
        unserved = (Math.min(requests, drivers) + 1.0) * (most + 1.0);
        int ends = drivers + requests;
        priceOfRequest = new double[requests];
        priceOfEnd = new double[ends];
        endOf = new int[requests];
        rowOf = new int[requests];
        holder = new int[ends];
        distance = new double[ends];
        cameFrom = new int[ends];
        cameBy = new int[ends];
        isDone = new boolean[ends];
        Arrays.fill(endOf, -1);
        Arrays.fill(holder, -1);
        Arrays.fill(distance, Double.POSITIVE_INFINITY);
        for (int i = 0; i < requests; i++) {
            add(i);
        }
        int[] chosen = new int[requests];
        for (int i = 0; i < requests; i++) {
            chosen[i] = endOf[i] < drivers ? rowOf[i] : -1;
        }
        return chosen;
    }

    private void add(int from) {
        touched = new ArrayList();
        PriorityQueue open = new PriorityQueue();
        relax(from, 0.0, open);
        int end = -1;
        while (end < 0) {
            Reached next = (Reached) open.poll();
            if (isDone[next.end] || next.distance > distance[next.end]) {
                continue;
            }
            isDone[next.end] = true;
            if (holder[next.end] < 0) {
                end = next.end;
            } else {
                relax(holder[next.end], next.distance, open);
            }
        }
        double length = distance[end];
        priceOfRequest[from] += length;
        for (int at = 0; at < touched.size(); at++) {
            int one = ((Integer) touched.get(at)).intValue();
            if (isDone[one] && one != end) {
                priceOfEnd[one] -= length - distance[one];
                priceOfRequest[holder[one]] += length - distance[one];
            }
        }
        exchange(from, end);
        for (int at = 0; at < touched.size(); at++) {
            int one = ((Integer) touched.get(at)).intValue();
            distance[one] = Double.POSITIVE_INFINITY;
            isDone[one] = false;
        }
    }

    private void relax(int i, double sofar, PriorityQueue open) {
        for (int row = begin[i]; row < begin[i + 1]; row++) {
            reach(i, row, driver[row], sofar + metres[row] - priceOfRequest[i] - priceOfEnd[driver[row]], open);
        }
        int alone = drivers + i;
        reach(i, -1, alone, sofar + unserved - priceOfRequest[i] - priceOfEnd[alone], open);
    }

    private void reach(int i, int row, int end, double length, PriorityQueue open) {
        if (!isDone[end] && length < distance[end]) {
            if (distance[end] == Double.POSITIVE_INFINITY) {
                touched.add(Integer.valueOf(end));
            }
            distance[end] = length;
            cameFrom[end] = i;
            cameBy[end] = row;
            open.add(new Reached(length, end));
        }
    }

    private void exchange(int from, int last) {
        int end = last;
        while (true) {
            int i = cameFrom[end];
            int before = endOf[i];
            endOf[i] = end;
            rowOf[i] = cameBy[end];
            holder[end] = i;
            if (i == from) {
                return;
            }
            end = before;
        }
    }
}
