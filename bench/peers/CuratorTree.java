import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.zip.CRC32;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.cache.TreeCacheEvent;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A copy of a tree by Apache Curator's TreeCache, for tree_test.go. The protocol is that of peers.go, with
 * the commands "open <root>", which ends when the copy is complete, "sum", which is the number of znodes
 * and the sum of the CRC-32 of each path and its data, and "memory", in bytes after a collection.
 */
public final class CuratorTree {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(args[0]).sessionTimeoutMs(10_000).connectionTimeoutMs(15_000)
                .retryPolicy(new ExponentialBackoffRetry(1000, 3)).build();
        client.start();
        client.blockUntilConnected();
        System.out.println("ok with ZooKeeper client " + org.apache.zookeeper.Version.getVersion());
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        TreeCache cache = null;
        String root = null;
        for (String line; (line = commands.readLine()) != null;) {
            if (line.startsWith("open ")) {
                root = line.substring("open ".length());
                cache = open(client, root);
                System.out.println("ok");
            } else if (line.equals("sum")) {
                long[] sum = new long[2];
                ChildData node = cache.getCurrentData(root);
                if (node != null) {
                    add(sum, root, node.getData());
                    below(sum, cache, root);
                }
                System.out.println("ok " + sum[0] + " " + sum[1]);
            } else {
                System.gc();
                System.out.println("ok " + (Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory()));
            }
        }
        client.close();
    }

    private static TreeCache open(CuratorFramework client, String root) throws Exception {
        TreeCache cache = new TreeCache(client, root);
        CountDownLatch complete = new CountDownLatch(1);
        cache.getListenable().addListener((c, event) -> {
            if (event.getType() == TreeCacheEvent.Type.INITIALIZED) {
                complete.countDown();
            }
        });
        cache.start();
        complete.await();
        return cache;
    }

    private static void below(long[] sum, TreeCache cache, String path) {
        Map<String, ChildData> children = cache.getCurrentChildren(path);
        if (children == null) {
            return;
        }
        for (Map.Entry<String, ChildData> child : children.entrySet()) {
            String at = path + "/" + child.getKey();
            add(sum, at, child.getValue().getData());
            below(sum, cache, at);
        }
    }

    private static void add(long[] sum, String path, byte[] data) {
        CRC32 crc = new CRC32();
        crc.update(path.getBytes(StandardCharsets.UTF_8));
        crc.update('=');
        if (data != null) {
            crc.update(data);
        }
        sum[0]++;
        sum[1] += crc.getValue();
    }
}
