#include "memory/system_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "accrue/memory/caching_allocator.h"
#include "support/system_tree.h"

namespace accrue::memory {
namespace {

class SystemMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write("proc/meminfo", "MemTotal:       2000 kB\nMemFree:  10 kB\nMemAvailable:   1000 kB\n");
  }
  void write(const std::string& path, const std::string& content) const {
    tree_.write(path, content);
  }
  std::int64_t available() const { return available_bytes_under(tree_.root()); }

 private:
  testing::SystemTree tree_;
};

TEST_F(SystemMemoryTest, WithoutALimitItIsWhatTheSystemHas) {
  EXPECT_EQ(available(), 1'024'000);
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/memory.max", "max\n");
  write("sys/fs/cgroup/job/memory.current", "5000\n");
  EXPECT_EQ(available(), 1'024'000);
}

TEST_F(SystemMemoryTest, VersionTwoTakesTheTightestOfAllAncestors) {
  write("proc/self/cgroup", "0::/slice/job\n");
  write("sys/fs/cgroup/slice/job/memory.max", "600000\n");
  write("sys/fs/cgroup/slice/job/memory.current", "100000\n");
  EXPECT_EQ(available(), 500'000);
  write("sys/fs/cgroup/slice/memory.max", "400000\n");
  write("sys/fs/cgroup/slice/memory.current", "150000\n");
  EXPECT_EQ(available(), 250'000);
}

TEST_F(SystemMemoryTest, FilePagesThatCanBeDroppedCountAsFree) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "600000\n");
  write("sys/fs/cgroup/memory.current", "500000\n");
  write("sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 300000\nactive_file 7\n");
  EXPECT_EQ(available(), 400'000);
}

TEST_F(SystemMemoryTest, VersionOneInsideAContainerIsReadAtTheMount) {
  write("proc/self/cgroup", "9:cpu:/x\n4:hugetlb,memory:/not/mounted/here\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "700000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n");
  EXPECT_EQ(available(), 600'000);
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "800000\n");
  EXPECT_EQ(available(), 0);
}

TEST_F(SystemMemoryTest, AGroupWithinAContainersIsFoundBelowTheMount) {
  write("proc/self/mountinfo", "31 1 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "0::/docker/abc/inner\n");
  write("sys/fs/cgroup/inner/memory.max", "600000\n");
  write("sys/fs/cgroup/inner/memory.current", "100000\n");
  EXPECT_EQ(available(), 500'000);
}

TEST_F(SystemMemoryTest, ThisProcessHasSomeAndUsedSome) {
  EXPECT_GT(available_bytes(), 1 << 20);
  EXPECT_GT(peak_resident_bytes(), 1 << 20);
}

TEST_F(SystemMemoryTest, EveryPageThatIsTouchedFirstIsAFault) {
  constexpr std::size_t pages = 1000;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const memory =
      ::mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ::madvise(memory, pages * page, MADV_NOHUGEPAGE);
  const auto faults_of_touching = [&] {
    const std::int64_t before = minor_page_faults();
    for (std::size_t i = 0; i < pages; ++i) static_cast<volatile char*>(memory)[i * page] = 1;
    return minor_page_faults() - before;
  };
  EXPECT_GE(faults_of_touching(), 1000);
  EXPECT_LT(faults_of_touching(), 100) << "they are mapped now";
  ::munmap(memory, pages * page);
}

}  // namespace
}  // namespace accrue::memory
