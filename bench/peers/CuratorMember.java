import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * A member of a group by Apache Curator's GroupMember, for group_test.go. The protocol is that of
 * peers.go, with the commands "members", "set <data>" and "leave".
 */
public final class CuratorMember {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
                .connectString(args[0]).sessionTimeoutMs(10_000).connectionTimeoutMs(15_000)
                .retryPolicy(new ExponentialBackoffRetry(1000, 3)).build();
        client.start();
        GroupMember member = new GroupMember(client, args[1], args[2], args[3].getBytes(StandardCharsets.UTF_8));
        member.start();
        System.out.println("ok with ZooKeeper client " + org.apache.zookeeper.Version.getVersion());
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = commands.readLine()) != null;) {
            System.out.println(answer(member, line));
        }
        client.close();
    }

    private static String answer(GroupMember member, String line) {
        if (line.equals("leave")) {
            member.close();
            return "ok";
        }
        if (line.startsWith("set ")) {
            member.setThisData(line.substring("set ".length()).getBytes(StandardCharsets.UTF_8));
            return "ok";
        }
        StringBuilder all = new StringBuilder("ok");
        for (Map.Entry<String, byte[]> one : new TreeMap<>(member.getCurrentMembers()).entrySet()) {
            all.append(' ').append(one.getKey()).append('=').append(new String(one.getValue(), StandardCharsets.UTF_8));
        }
        return all.toString();
    }
}
