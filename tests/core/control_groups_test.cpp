#include "core/control_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/machine.h"
#include "support/system_tree.h"

namespace accrue {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kMountsOfVersion2 =
    "24 1 0:22 / /proc rw shared:1 - proc proc rw\n"
    "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

class ControlGroupsTest : public ::testing::Test {
 protected:
  /// Folders of groups below the tree's root.
  std::vector<std::string> folders(std::string_view controller) const {
    std::vector<std::string> found;
    for (const ControlGroup& group : control_groups(controller, tree.root()))
      found.push_back(group.folder.lexically_relative(tree.root()).string());
    return found;
  }
  std::int64_t threads(std::int64_t most) const { return threads_of_quota(most, tree.root()); }

  testing::SystemTree tree;
};

TEST_F(ControlGroupsTest, TheQuotaOfAServiceIsFoundInItsOwnGroup) {
  tree.write("proc/self/mountinfo", kMountsOfVersion2);
  tree.write("proc/self/cgroup", "0::/system.slice/train.service\n");
  tree.write("sys/fs/cgroup/system.slice/train.service/cpu.max", "50000 100000\n");
  EXPECT_EQ(threads(8), 1) << "half a core";
  tree.write("sys/fs/cgroup/system.slice/train.service/cpu.max", "350000 100000\n");
  EXPECT_EQ(threads(8), 3);
  EXPECT_EQ(threads(2), 2) << "fewer processors than the quota";
}

TEST_F(ControlGroupsTest, AnAncestorWithLessBinds) {
  tree.write("proc/self/mountinfo", kMountsOfVersion2);
  tree.write("proc/self/cgroup", "0::/user.slice/job/step\n");
  tree.write("sys/fs/cgroup/user.slice/job/step/cpu.max", "max 100000\n");
  tree.write("sys/fs/cgroup/user.slice/job/cpu.max", "600000 100000\n");
  tree.write("sys/fs/cgroup/user.slice/cpu.max", "200000 100000\n");
  EXPECT_EQ(threads(8), 2);
  EXPECT_THAT(folders("cpu"),
              ElementsAre("sys/fs/cgroup/user.slice/job/step", "sys/fs/cgroup/user.slice/job",
                          "sys/fs/cgroup/user.slice", "sys/fs/cgroup"));
}

TEST_F(ControlGroupsTest, AQuotaOfAnotherGroupDoesNotBind) {
  tree.write("proc/self/mountinfo", kMountsOfVersion2);
  tree.write("proc/self/cgroup", "0::/mine\n");
  tree.write("sys/fs/cgroup/other/cpu.max", "100000 100000\n");
  tree.write("sys/fs/cgroup/mine/other/cpu.max", "100000 100000\n");
  EXPECT_EQ(threads(8), 8);
}

TEST_F(ControlGroupsTest, VersionOneHasTheQuotaInTwoFilesOfANestedGroup) {
  tree.write("proc/self/cgroup", "5:memory:/elsewhere\n1:cpuacct,cpu:/batch/job\n0::/\n");
  tree.write("sys/fs/cgroup/cpu/batch/job/cpu.cfs_quota_us", "-1\n");
  tree.write("sys/fs/cgroup/cpu/batch/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(threads(8), 8);
  tree.write("sys/fs/cgroup/cpu/batch/cpu.cfs_quota_us", "150000\n");
  tree.write("sys/fs/cgroup/cpu/batch/cpu.cfs_period_us", "50000\n");
  EXPECT_EQ(threads(8), 3);
}

TEST_F(ControlGroupsTest, ControllersThatShareAMountAreFoundWhereItIs) {
  tree.write("proc/self/mountinfo",
             "31 1 0:28 / /groups/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
             "32 1 0:29 / /groups/cpuset rw - cgroup cgroup rw,cpuset\n"
             "33 1 0:30 / /groups/unified rw - cgroup2 cgroup2 rw\n");
  tree.write("proc/self/cgroup", "3:cpuset:/\n1:cpu,cpuacct:/job\n0::/init.scope\n");
  EXPECT_THAT(folders("cpu"), ElementsAre("groups/cpu,cpuacct/job", "groups/cpu,cpuacct",
                                          "groups/unified/init.scope", "groups/unified"));
  tree.write("groups/cpu,cpuacct/job/cpu.cfs_quota_us", "100000\n");
  tree.write("groups/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(threads(8), 1);
}

TEST_F(ControlGroupsTest, AContainerWithTheHostsNamesHasItsGroupAtTheMount) {
  tree.write("proc/self/mountinfo",
             "31 1 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n");
  tree.write("proc/self/cgroup", "0::/docker/abc/inner\n");
  tree.write("sys/fs/cgroup/cpu.max", "400000 100000\n");
  EXPECT_EQ(threads(8), 4);
  tree.write("sys/fs/cgroup/inner/cpu.max", "100000 100000\n");
  EXPECT_EQ(threads(8), 1) << "a group within the container's";
}

TEST_F(ControlGroupsTest, AGroupOutsideTheNamespaceIsBoundByWhatIsMounted) {
  tree.write("proc/self/mountinfo", "31 1 0:28 /../../x /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n");
  tree.write("proc/self/cgroup", "0::/../job\n");
  tree.write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_THAT(folders("cpu"), ElementsAre("sys/fs/cgroup"));
  EXPECT_EQ(threads(8), 2);
}

TEST_F(ControlGroupsTest, WithoutGroupsOrWithUnreadableFilesNothingBinds) {
  EXPECT_THAT(folders("cpu"), IsEmpty());
  EXPECT_EQ(threads(8), 8);
  tree.write("proc/self/cgroup", "0::/job\nnonsense\n::\n");
  tree.write("proc/self/mountinfo", "garbage\n");
  tree.write("sys/fs/cgroup/job/cpu.max", "");
  EXPECT_EQ(threads(8), 8);
  tree.write("sys/fs/cgroup/job/cpu.max", "0 0\n");
  EXPECT_EQ(threads(8), 8);
}

TEST(GrantedThreads, AreAtLeastOneAndAtMostTheQuota) {
  EXPECT_GE(granted_threads(), 1);
  EXPECT_LE(granted_threads(), threads_of_quota(granted_threads()));
}

}  // namespace
}  // namespace accrue
