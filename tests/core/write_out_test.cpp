#include "core/write_out.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>

namespace accrue {
namespace {

/// A pipe of one page, which accepts at most that much at once.
class Pipe {
 public:
  explicit Pipe(int flags) {
    EXPECT_EQ(::pipe2(ends_.data(), flags), 0);
    room_ = static_cast<std::size_t>(::fcntl(write_end(), F_SETPIPE_SZ, 4096));
  }
  ~Pipe() {
    for (const int end : ends_) ::close(end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  std::size_t room() const { return room_; }

 private:
  std::array<int, 2> ends_{};
  std::size_t room_ = 0;
};

TEST(WriteOut, WritesAllThatIsTakenInParts) {
  const Pipe pipe(0);
  const std::string bytes(10 * pipe.room() + 7, 'x');
  std::string read;
  std::thread reader([&] {
    std::array<char, 1000> part{};
    while (read.size() < bytes.size())
      read.append(part.data(),
                  static_cast<std::size_t>(::read(pipe.read_end(), part.data(), part.size())));
  });
  EXPECT_EQ(write_out(pipe.write_end(), bytes), bytes.size());
  reader.join();
  EXPECT_EQ(read, bytes);
}

TEST(WriteOut, TellsHowFarItCameAndWhy) {
  const Pipe pipe(O_NONBLOCK);
  const std::string bytes(2 * pipe.room(), 'x');
  EXPECT_EQ(write_out(pipe.write_end(), bytes), pipe.room());
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(write_out(-1, bytes), 0U);
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace accrue
