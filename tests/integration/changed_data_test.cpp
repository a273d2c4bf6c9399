// Data that are wrong, or change, in the middle of a run.
#include <gmock/gmock.h>

#include "core/atomic_file.h"
#include "faulty_program.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ChangedData : public FaultyProgram {
 protected:
  void write_byte(std::uintmax_t at) const {
    std::fstream file(folder_ / "text.txt", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << '#';
  }
};

TEST_F(ChangedData, AWrongTokenAnywhereIsRefusedBeforeAnythingIsWritten) {
  std::string tokens(40'000, '\1');
  tokens.replace(39'000, 2, "\xff\xff");
  write("tokens.bin", tokens);
  const auto train = [&] {
    return accrue({"train", "run.toml", "--data.train=[\"tokens.bin\"]", "--model.vocab=300"});
  };
  const Program::Result result = train();
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("id 65535 at token 19500"));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  tokens.replace(39'000, 2, "\1\1");
  write("tokens.bin", tokens);
  EXPECT_EQ(train().status, 0);
}

TEST_F(ChangedData, IsAcceptedByNameWhereItHoldsAsManySamples) {
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  write_byte(fs::file_size(folder_ / "text.txt") / 2);
  const Program::Result refused = accrue({"train", "run.toml", "--resume", "2"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, HasSubstr("--accept-data"));
  const Program::Result accepted = accrue({"train", "run.toml", "--resume", "2", "--accept-data"});
  EXPECT_EQ(accepted.status, 0) << accepted.errors;
  EXPECT_THAT(read_file(folder_ / "out/metrics.jsonl"), HasSubstr("accepted by --accept-data"));
  EXPECT_EQ(accrue({"train", "run.toml", "--resume"}).status, 0)
      << "these are its data from now on";

  std::ofstream(folder_ / "text.txt", std::ios::app) << std::string(200, 'x');
  const Program::Result longer = accrue({"train", "run.toml", "--resume", "--accept-data"});
  EXPECT_EQ(longer.status, 2);
  EXPECT_THAT(longer.errors, HasSubstr("held out, as before"));
  EXPECT_EQ(accrue({"train", "run.toml", "--accept-data"}).status, 2) << "it goes with --resume";
}

TEST_F(ChangedData, DuringTheRunIsNoticed) {
  const Words often{"--run.checkpoint_every=5"};
  const Pause pause(folder_, "run");
  Program run = start_with({pauses_in_step(7, "run")}, long_run("out", often));
  pause.wait();
  write_byte(100);
  pause.release();
  const Program::Result result = run.wait();
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, HasSubstr("text.txt"));
  EXPECT_THAT(result.errors, HasSubstr("written to"));

  const Program::Result again =
      accrue_with({stops_in_step(2)}, long_run("out", {often[0], "--resume", "--accept-data"}));
  EXPECT_EQ(again.status, kInterrupted);
  EXPECT_THAT(read_file(folder_ / "out/metrics.jsonl"), HasSubstr("\"resume\""));
}

}  // namespace
}  // namespace accrue::testing
