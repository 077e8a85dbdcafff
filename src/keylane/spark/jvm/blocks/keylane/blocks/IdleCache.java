package keylane.blocks;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/**
 * Objects that outlive a batch on an executor, each taken by one task at a time and given back; one that nobody takes for
 * some minutes is dropped, and closed if it can be: its slot runs elsewhere now, or its query has ended. Nothing depends
 * on an object being here: whoever finds none makes it again.
 *
 * <p>Tasks load this class by another loader than the driver, also in one process, and then have other static fields. So
 * when a query ends, the caches of a process are found by their threads, and called as what the loaders share: a Function.
 */
public final class IdleCache extends Thread implements Function {
    private static final long IDLE_MS = 300000L;
    private static final long LOOK_MS = 30000L;

    private final Map kept = new HashMap();
    private final long idleMs;
    private final long lookMs;

    public IdleCache(String name) {
        this(name, IDLE_MS, LOOK_MS);
    }

    /** Look every so often for what nobody took for so long. */
    public IdleCache(String name, long idleMs, long lookMs) {
        super(name);
        this.idleMs = idleMs;
        this.lookMs = lookMs;
        setDaemon(true);
        start();
    }

    private static final class Kept {
        final Object value;
        final long since = System.currentTimeMillis();

        Kept(Object value) {
            this.value = value;
        }
    }

    public Object take(String name) {
        synchronized (kept) {
            Kept found = (Kept) kept.remove(name);
            return found == null ? null : found.value;
        }
    }

    public void giveBack(String name, Object value) {
        Kept before;
        synchronized (kept) {
            before = (Kept) kept.put(name, new Kept(value));
        }
        if (before != null) {
            close(before.value);
        }
    }

    /** Drop all whose names begin so; how many. */
    public int drop(String prefix) {
        return drop(prefix, Long.MAX_VALUE);
    }

    public Object apply(Object prefix) {
        return Integer.valueOf(drop((String) prefix));
    }

    /** Drop all whose names begin so in every cache of this process; how many. */
    public static int dropEverywhere(String prefix) {
        int dropped = 0;
        for (Iterator all = Thread.getAllStackTraces().keySet().iterator(); all.hasNext(); ) {
            Thread one = (Thread) all.next();
            if (one.getClass().getName().equals(IdleCache.class.getName())) {
                dropped += ((Integer) ((Function) one).apply(prefix)).intValue();
            }
        }
        return dropped;
    }

    public int size() {
        synchronized (kept) {
            return kept.size();
        }
    }

    private int drop(String prefix, long before) {
        List dropped = new ArrayList();
        synchronized (kept) {
            for (Iterator all = kept.entrySet().iterator(); all.hasNext(); ) {
                Map.Entry one = (Map.Entry) all.next();
                Kept found = (Kept) one.getValue();
                if (((String) one.getKey()).startsWith(prefix) && found.since <= before) {
                    dropped.add(found.value);
                    all.remove();
                }
            }
        }
        for (int at = 0; at < dropped.size(); at++) {
            close(dropped.get(at));
        }
        return dropped.size();
    }

    private static void close(Object value) {
        if (value instanceof AutoCloseable) {
            try {
                ((AutoCloseable) value).close();
            } catch (Exception ended) {
                return;
            }
        }
    }

    public void run() {
        while (true) {
            try {
                Thread.sleep(lookMs);
            } catch (InterruptedException end) {
                return;
            }
            drop("", System.currentTimeMillis() - idleMs);
        }
    }
}
