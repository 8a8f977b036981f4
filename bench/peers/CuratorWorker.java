import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Runs Apache Curator's locks for the bench. The protocol is described in peers.go. */
public final class CuratorWorker {
    private static final int SESSION_TIMEOUT = 30_000; // ms, as on the other sides
    private static final int CONNECTION_TIMEOUT = 15_000; // ms, Curator's default
    private static final int MAX_PARALLEL = 32;
    private static final int PERMITS = 4; // as in semaphore.go

    private final List<CuratorFramework> clients = new ArrayList<>();
    private final List<Callable<InterProcessLock>> locks = new ArrayList<>(); // one draw for each cycle
    private final ExecutorService threads;

    private CuratorWorker(String servers, String recipe, int sessions, int count, String path) throws Exception {
        threads = Executors.newFixedThreadPool(Math.max(count, MAX_PARALLEL));
        String[] all = servers.split(",");
        for (int i = 0; i < sessions; i++) {
            clients.add(CuratorFrameworkFactory.builder()
                    .connectString(all[i % all.length])
                    .sessionTimeoutMs(SESSION_TIMEOUT)
                    .connectionTimeoutMs(CONNECTION_TIMEOUT)
                    .retryPolicy(new ExponentialBackoffRetry(1000, 3))
                    .ensembleTracker(false) // which reads the configuration once connected: no part of a lock's cost
                    .build());
        }
        for (int i = 0; i < count; i++) {
            locks.add(lockOf(recipe, clients.get(i % sessions), path, new Random(i)));
        }
        inParallel(client -> {
            client.start();
            if (!client.blockUntilConnected(60, TimeUnit.SECONDS)) {
                throw new IllegalStateException("not connected after 60 s");
            }
        });
    }

    private static Callable<InterProcessLock> lockOf(String recipe, CuratorFramework client, String path, Random dice) {
        switch (recipe) {
            case "mutex":
                InterProcessMutex mutex = new InterProcessMutex(client, path);
                return () -> mutex;
            case "rw":
                InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, path);
                return () -> dice.nextInt(10) == 0 ? lock.writeLock() : lock.readLock();
            case "semaphore":
                Permit permit = new Permit(new InterProcessSemaphoreV2(client, path, PERMITS));
                return () -> permit;
            default:
                throw new IllegalArgumentException("unknown recipe " + recipe);
        }
    }

    /** One permit of a semaphore, as a lock of one thread. */
    private static final class Permit implements InterProcessLock {
        private final InterProcessSemaphoreV2 semaphore;
        private Lease lease;

        Permit(InterProcessSemaphoreV2 semaphore) {
            this.semaphore = semaphore;
        }

        @Override
        public void acquire() throws Exception {
            lease = semaphore.acquire();
        }

        @Override
        public boolean acquire(long time, TimeUnit unit) throws Exception {
            lease = semaphore.acquire(time, unit);
            return lease != null;
        }

        @Override
        public void release() {
            semaphore.returnLease(lease);
            lease = null;
        }

        @Override
        public boolean isAcquiredInThisProcess() {
            return lease != null;
        }
    }

    /** Lets all threads together run these cycles after the lead. Returns the times in ns: of the block, and of each cycle. */
    private String run(int lead, int cycles, long holdMicros) throws Exception {
        long[] took = new long[cycles];
        long[] bounds = new long[2]; // of the block, each written by the thread that has this turn
        AtomicInteger next = new AtomicInteger();
        List<Callable<Void>> workers = new ArrayList<>();
        for (Callable<InterProcessLock> lock : locks) {
            workers.add(() -> {
                for (;;) {
                    int turn = next.getAndIncrement() - lead;
                    long began = System.nanoTime();
                    if (turn == 0) {
                        bounds[0] = began;
                    }
                    if (turn == cycles) {
                        bounds[1] = began;
                    }
                    if (turn >= cycles) {
                        return null;
                    }
                    InterProcessLock held = lock.call();
                    held.acquire();
                    if (holdMicros > 0) {
                        TimeUnit.MICROSECONDS.sleep(holdMicros);
                    }
                    held.release();
                    if (turn >= 0) {
                        took[turn] = System.nanoTime() - began;
                    }
                }
            });
        }
        join(threads.invokeAll(workers));
        if (lead == 0) {
            bounds[1] = System.nanoTime();
        }
        StringBuilder times = new StringBuilder().append(bounds[1] - bounds[0]);
        for (long t : took) {
            times.append(' ').append(t);
        }
        return times.toString();
    }

    private void close() throws Exception {
        inParallel(CuratorFramework::close);
        threads.shutdown();
    }

    private interface Step {
        void on(CuratorFramework client) throws Exception;
    }

    private void inParallel(Step step) throws Exception {
        Semaphore slots = new Semaphore(MAX_PARALLEL);
        List<Callable<Void>> steps = new ArrayList<>();
        for (CuratorFramework client : clients) {
            steps.add(() -> {
                slots.acquire();
                try {
                    step.on(client);
                } finally {
                    slots.release();
                }
                return null;
            });
        }
        join(threads.invokeAll(steps));
    }

    private static void join(List<Future<Void>> all) throws Exception {
        for (Future<Void> one : all) {
            try {
                one.get();
            } catch (ExecutionException e) {
                throw new Exception(e.getCause());
            }
        }
    }

    private static String version() throws Exception {
        Properties pom = new Properties();
        var file = InterProcessMutex.class.getResourceAsStream(
                "/META-INF/maven/org.apache.curator/curator-recipes/pom.properties");
        if (file != null) {
            pom.load(file);
        }
        return pom.getProperty("version", "of an unknown version")
                + ", ZooKeeper client " + org.apache.zookeeper.Version.getVersion()
                + ", Java " + System.getProperty("java.version");
    }

    /** Reads the commands, and ends the process when there are no more, even during a block. */
    private static BlockingQueue<String> commands() {
        BlockingQueue<String> commands = new LinkedBlockingQueue<>();
        Thread reader = new Thread(() -> {
            try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
                for (String line; (line = in.readLine()) != null;) {
                    commands.add(line);
                }
            } catch (Exception e) {
                e.printStackTrace();
            } finally {
                Runtime.getRuntime().halt(0);
            }
        });
        reader.start();
        return commands;
    }

    public static void main(String[] args) throws Exception {
        BlockingQueue<String> commands = commands();
        System.out.println("ok " + version());
        for (CuratorWorker worker = null;;) {
            String[] words = commands.take().split(" ");
            String answer = "ok";
            try {
                switch (words[0]) {
                    case "open":
                        worker = new CuratorWorker(words[1], words[2], Integer.parseInt(words[3]),
                                Integer.parseInt(words[4]), words[5]);
                        break;
                    case "run":
                        answer = "ok " + worker.run(Integer.parseInt(words[1]), Integer.parseInt(words[2]),
                                Long.parseLong(words[3]));
                        break;
                    case "close":
                        worker.close();
                        break;
                    default:
                        throw new IllegalArgumentException("unknown command " + words[0]);
                }
            } catch (Exception e) {
                answer = "error " + e.toString().replace('\n', ' ');
            }
            System.out.println(answer);
        }
    }
}
