#include "integration/ranks/distributed_run.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using testing::DistributedRun;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Words;

constexpr const char* kSecret = "correct horse battery staple";

class RunToken : public DistributedRun {
 protected:
  std::vector<Program::Result> run_with(const Words& settings, const Config& c, int world) const {
    Words words = settings;
    for (std::string& word : command(c)) words.push_back(std::move(word));
    return accrue::testing::run_ranks(folder_, world, world, [&](int) { return words; });
  }

  /// The files of all runs, and the outputs of their ranks, that contain `word`.
  std::vector<std::string> files_with(const std::string& word) const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_))
      if (entry.is_regular_file() && read_file(entry.path()).find(word) != std::string::npos)
        files.push_back(entry.path().filename());
    return files;
  }
};

TEST_F(RunToken, IsInNoFileOfTheRun) {
  const Config c = small("run");
  for (const Program::Result& result : run_with({std::string("ACCRUE_RUN_TOKEN=") + kSecret}, c, 2))
    EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(files_with(kSecret), IsEmpty());
  EXPECT_THAT(files_with("\"libtorch\""), ::testing::Contains("run.json")) << "all are looked at";
}

TEST_F(RunToken, IsNeededBeforeAnythingIsWritten) {
  const Config c = small("run");
  // 192.0.2.0/24 is reserved for documentation: no machine has it.
  for (const Program::Result& result : run_with({"MASTER_ADDR=192.0.2.1"}, c, 2)) {
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.errors, HasSubstr("openssl rand"));
  }
  EXPECT_FALSE(std::filesystem::exists(c.run.out));
  for (const Program::Result& result : run_with({"ACCRUE_RUN_TOKEN=short and known"}, c, 2)) {
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.errors,
                ::testing::AllOf(HasSubstr("at least 16 characters"), Not(HasSubstr("and known"))));
  }
  EXPECT_FALSE(std::filesystem::exists(c.run.out));
}

}  // namespace
}  // namespace accrue::train
