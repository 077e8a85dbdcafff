package keylane.blocks;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/**
 * Objects that outlive a batch on an executor, each taken by one task at a time and given back; one that nobody takes for
 * some minutes is dropped, and closed if it can be: its slot runs elsewhere now, or its query has ended. Nothing depends
 * on an object being here: whoever finds none makes it again.
 */
public final class IdleCache extends Thread {
    private static final long IDLE_MS = 300000L;
    private static final long LOOK_MS = 30000L;

    private final Map kept = new HashMap();

    public IdleCache(String name) {
        super(name);
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

    /** Drop all whose names begin so. */
    public void drop(String prefix) {
        drop(prefix, Long.MAX_VALUE);
    }

    public int size() {
        synchronized (kept) {
            return kept.size();
        }
    }

    private void drop(String prefix, long before) {
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
                Thread.sleep(LOOK_MS);
            } catch (InterruptedException end) {
                return;
            }
            drop("", System.currentTimeMillis() - IDLE_MS);
        }
    }
}
