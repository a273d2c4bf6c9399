#include "core/sealed_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace accrue {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t seal_bytes = 32;

class SealedFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("sealed_file_test_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path seal(const std::string& name, const std::string& content) const {
    SealedFile file(folder_ / name);
    for (std::size_t at = 0; at < content.size(); at += 7) file.write(content.substr(at, 7));
    file.commit();
    return folder_ / name;
  }
  /// The damage of these bytes as the file "a"; empty if there is none.
  std::string damage_of(const std::string& bytes) const {
    write_file_atomically(folder_ / "a", bytes);
    const SealedContent found = check_sealed(folder_ / "a");
    EXPECT_NE(found.bytes.has_value(), !found.damage.empty());
    return found.damage;
  }

  fs::path folder_;
};

TEST_F(SealedFiles, BeginWithTheirContent) {
  for (const std::string& content :
       {std::string(), std::string(1, 'x'), std::string(3 << 20, 'y')}) {
    const fs::path path = seal("a", content);
    EXPECT_EQ(check_sealed(path).bytes, std::ssize(content));
    const std::string bytes = read_file(path);
    EXPECT_EQ(bytes.substr(0, content.size()), content);
    EXPECT_EQ(bytes.size(), content.size() + seal_bytes);
  }
}

TEST_F(SealedFiles, AreKnownToBeDamagedAtEachByteAndLength) {
  const std::string bytes = read_file(seal("a", "what was derived, some hundred bytes or less"));
  ASSERT_EQ(damage_of(bytes), "");
  for (std::size_t at = 0; at < bytes.size(); ++at)
    for (const int bit : {0, 3, 7}) {
      std::string other = bytes;
      other[at] = static_cast<char>(other[at] ^ 1 << bit);
      EXPECT_NE(damage_of(other), "") << at;
    }
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_NE(damage_of(bytes.substr(0, length)), "") << length;
  EXPECT_NE(damage_of(bytes + "1"), "");
  EXPECT_NE(damage_of(bytes.substr(1)), "");
  EXPECT_NE(damage_of(std::string(bytes.size(), '\0')), "");
  EXPECT_NE(damage_of(bytes + bytes.substr(bytes.size() - seal_bytes)), "");
}

TEST_F(SealedFiles, AreKnownByTheirNames) {
  const fs::path path = seal("a", "one");
  fs::rename(path, folder_ / "b");
  EXPECT_FALSE(check_sealed(folder_ / "b").bytes) << "the content of another file";
}

TEST_F(SealedFiles, ThatCannotBeReadAreDamaged) {
  EXPECT_NE(check_sealed(folder_ / "nothing").damage, "");
  EXPECT_NE(check_sealed(folder_).damage, "");
}

TEST_F(SealedFiles, StayWhereOnlyAMissingOneIsWanted) {
  const fs::path path = seal("a", "first");
  SealedFile second(path);
  second.write("second");
  second.commit_unless_there();
  EXPECT_EQ(check_sealed(path).bytes, 5);
}

}  // namespace
}  // namespace accrue
