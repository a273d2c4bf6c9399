#include "core/open_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "support/errors.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

/// A folder with something of each kind.
class OpenFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "open_file_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    put("file", "text");
    fs::create_directory(at("folder"));
    ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0644), 0);
    fs::create_symlink("file", at("link"));
    fs::create_symlink("pipe", at("link to pipe"));
    fs::create_symlink("nothing", at("dangling"));
    const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, at("socket").c_str(), sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path at(const std::string& name) const { return folder_ / name; }
  void put(const std::string& name, const std::string& content) const {
    std::ofstream(at(name)) << content;
  }
  std::string to_read(const std::string& name) const { return open_to_read(at(name)).obstacle; }
  std::string to_change(const std::string& name) const {
    return open_to_change(at(name), O_WRONLY | O_APPEND).obstacle;
  }

  fs::path folder_;
};

TEST_F(OpenFile, ReadsRegularFilesAndWaitsForNothingElse) {
  EXPECT_EQ(to_read("file"), "");
  EXPECT_EQ(to_read("link"), "");
  EXPECT_EQ(to_read("pipe"), "a pipe");
  EXPECT_EQ(to_read("link to pipe"), "a pipe");
  EXPECT_EQ(to_read("folder"), "a folder");
  EXPECT_EQ(to_read("socket"), "a socket");
  EXPECT_EQ(to_read("/dev/null"), "a device");
  EXPECT_EQ(to_read("dangling"), std::strerror(ENOENT));
  EXPECT_EQ(open_to_read(at("none")).error, ENOENT);
  EXPECT_EQ(open_to_read("/proc/self/status").obstacle, "") << "a file whose size is not known";
  EXPECT_TRUE(stream_to_read(at("file")).is_open());
  EXPECT_FALSE(stream_to_read(at("pipe")).is_open());
}

/// `accrue train <(a command)`.
TEST_F(OpenFile, ReadsPipesWithoutANameWhereTheyAreTaken) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ASSERT_EQ(::write(ends[1], "text", 4), 4);
  ::close(ends[1]);
  const fs::path path = "/proc/self/fd/" + std::to_string(ends[0]);
  EXPECT_EQ(open_to_read(path).obstacle, "a pipe");
  EXPECT_EQ(read_file(path, ReadOrder::in_order), "text");
  EXPECT_EQ(open_to_read(at("pipe"), ReadOrder::in_order).obstacle, "a pipe");
  ::close(ends[0]);
}

TEST_F(OpenFile, ReadsWholeFilesOfAnySize) {
  for (const std::size_t size : {0UL, 1UL, 65'535UL, 65'536UL, 65'537UL, 1'000'000UL}) {
    put("sized", std::string(size, 'x'));
    EXPECT_EQ(read_file(at("sized")).size(), size);
  }
  EXPECT_FALSE(read_file("/proc/self/status").empty());
  EXPECT_NE(testing::usage_message([&] { read_file(at("pipe")); }).find("a pipe"),
            std::string::npos);
}

TEST_F(OpenFile, MakesNewFilesAlone) {
  EXPECT_TRUE(create_file(at("new"), O_WRONLY));
  for (const char* taken : {"new", "file", "link", "dangling", "pipe", "folder"})
    EXPECT_EQ(create_file(at(taken), O_WRONLY).error, EEXIST) << taken;
  EXPECT_FALSE(fs::exists(at("nothing")));
}

TEST_F(OpenFile, ChangesNothingThroughLinks) {
  EXPECT_EQ(to_change("file"), "");
  EXPECT_EQ(to_change("made"), "");
  EXPECT_TRUE(fs::exists(at("made")));
  EXPECT_EQ(to_change("link"), "a link");
  EXPECT_EQ(to_change("dangling"), "a link");
  EXPECT_EQ(to_change("pipe"), "a pipe");
  EXPECT_EQ(to_change("folder"), "a folder");
  EXPECT_FALSE(fs::exists(at("nothing")));
  EXPECT_FALSE(has_second_name(at("file")));
  fs::create_hard_link(at("file"), at("second"));
  EXPECT_TRUE(has_second_name(at("file")));
  EXPECT_NE(to_change("file").find("a hard link"), std::string::npos);
  EXPECT_EQ(read_file(at("second")), "text");
}

}  // namespace
}  // namespace accrue
