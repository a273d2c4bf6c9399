#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/atomic_file.h"
#include "integration/ranks/distributed_run.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using testing::DistributedRun;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using distributed::Compression;

/// Runs by several processes with dist.compress.
class CompressedRun : public DistributedRun {
 protected:
  Config compressed(Compression compress) const {
    Config c = small(std::string(to_string(compress)));
    c.dist.compress = compress;
    return c;
  }

  /// The mean over all steps.
  static double wire_bytes_of(const Config& c) {
    double bytes = 0;
    for (const nlohmann::json& step : steps_of(c)) bytes += step["wire_bytes"].get<double>();
    return bytes;
  }

  static std::string reasons_of(const Config& c, const std::string& event) {
    std::string reasons;
    for (const nlohmann::json& line : events_of(event, c))
      reasons += line["reason"].get<std::string>() + "\n";
    return reasons;
  }

  /// Removes the files as if the checkpoint had been written after a failure.
  static void take_away_what_ranks_kept(const Config& c, std::int64_t step) {
    const fs::path checkpoint = RunDirectory(c.run.out).checkpoint(step);
    auto manifest = nlohmann::json::parse(read_file(checkpoint / "manifest.json"));
    ASSERT_EQ(manifest["files"].erase("ranks.safetensors"), 1U);
    fs::remove(checkpoint / "ranks.safetensors");
    write_file_atomically(checkpoint / "manifest.json", manifest.dump());
  }
};

TEST_F(CompressedRun, SendsWhatItsCodeTakesAndSaysThatNothingOverlaps) {
  const Config exact = compressed(Compression::none);
  expect_runs(exact, 2);
  EXPECT_THAT(reasons_of(exact, "dist"), IsEmpty());
  // In addition to the codes there is a row of numbers, and parts are whole blocks.
  constexpr double others = 0.02;
  for (const auto& [compress, share] :
       {std::pair{Compression::bf16, 0.5}, {Compression::int8, (1 + 4.0 / 256) / 4}}) {
    SCOPED_TRACE(to_string(compress));
    const Config c = compressed(compress);
    expect_runs(c, 2);
    EXPECT_NEAR(wire_bytes_of(c) / wire_bytes_of(exact), share, others);
    EXPECT_THAT(reasons_of(c, "dist"), HasSubstr("nothing overlaps"));
    EXPECT_FALSE(are_close(c, parameters_of(exact))) << "it rounds";
  }
}

/// PowerSGD's sums do not depend on the division of its state among the ranks, so a resumption with
/// any number of ranks yields the same parameters.
TEST_F(CompressedRun, ResumesWithWhatAllRanksKept) {
  const Config c = compressed(Compression::powersgd);
  expect_runs(c, 2);
  const NamedParameters expected = parameters_of(c);
  for (const int world : {2, 3}) {
    expect_runs(c, world, {"--resume", "3"});
    EXPECT_TRUE(are_close(c, expected)) << world << " ranks";
  }
  EXPECT_THAT(reasons_of(c, "dist"), Not(HasSubstr("lost")));
  take_away_what_ranks_kept(c, 3);
  expect_runs(c, 2, {"--resume", "3"});
  EXPECT_FALSE(are_close(c, expected));
  EXPECT_THAT(reasons_of(c, "dist"), HasSubstr("what the last sum left out, which is lost"));
}

}  // namespace
}  // namespace accrue::train
