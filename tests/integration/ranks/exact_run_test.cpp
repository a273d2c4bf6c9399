// Exact batch normalisation over ranks: the statistics of a window are those of all ranks.
#include <gmock/gmock.h>

#include <random>

#include "integration/ranks/distributed_run.h"
#include "support/tolerance.h"

namespace accrue::train {
namespace {

using accrue::testing::Program;
using accrue::testing::relative_error;
using ::testing::HasSubstr;

/// The tolerance for sums in double, through four layers' norms and three steps.
constexpr double kExact = 1e-12;

class ExactRanks : public testing::DistributedRun {
 protected:
  void SetUp() override {
    DistributedRun::SetUp();
    std::mt19937 random(5);
    std::ofstream images(folder_ / "images.bin", std::ios::binary);
    for (int image = 0; image < 40; ++image) {
      images.put(static_cast<char>(image % 10));
      for (int byte = 0; byte < 3 * 32 * 32; ++byte)
        images.put(static_cast<char>((random() >> 8) % 200 + static_cast<unsigned>(image % 10)));
    }
  }

  /// Results of `world` ranks of a small ResNet that trains into `out`.
  std::vector<Program::Result> train(const std::string& out, int world,
                                     const testing::Words& more = {}) const {
    std::ofstream(folder_ / (out + ".toml"))
        << "[run]\nout = \"" << (folder_ / out).string() << "\"\nsteps = 3\nthreads = 1\n"
        << "[model]\nkind = \"resnet\"\nlayers = 8\nwidth = 4\nbatchnorm = \"exact\"\n"
        << "[data]\ntrain = [\"" << (folder_ / "images.bin").string() << "\"]\n"
        << "format = \"images\"\nval_fraction = 0.1\n[batch]\nsamples = 11\nmicro = 2\n"
        << "[precision]\ncompute = \"fp64\"\n[optim]\nkind = \"sgd\"\nlr = 0.05\n"
        << "[observe]\nprogress = \"off\"\n";
    testing::Words words{ACCRUE_PROGRAM, "train", (folder_ / (out + ".toml")).string()};
    words.insert(words.end(), more.begin(), more.end());
    return accrue::testing::run_ranks(folder_, world, world, [&](int) { return words; });
  }

  void expect_trains(const std::string& out, int world) const {
    for (const Program::Result& result : train(out, world))
      EXPECT_EQ(result.status, 0) << result.errors;
  }

  std::unique_ptr<models::Model> model_of(const std::string& out) const {
    return load_model(RunDirectory(folder_ / out), std::nullopt);
  }
};

TEST_F(ExactRanks, HaveTheStatisticsOfTheWholeWindow) {
  expect_trains("alone", 1);
  const auto alone = model_of("alone");
  for (const Program::Result& result : train("micro", 1, {"--model.batchnorm=micro"}))
    EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_GT(relative_error(model_of("micro")->parameters().front().tensor,
                           alone->parameters().front().tensor),
            1e-3)
      << "with statistics of micro-batches";
  for (const int world : {2, 3}) {
    const std::string out = "world" + std::to_string(world);
    expect_trains(out, world);
    const auto model = model_of(out);
    const NamedParameters parameters = model->parameters(), expected = alone->parameters();
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LT(relative_error(parameters[i].tensor, expected[i].tensor), kExact)
          << world << ' ' << expected[i].name;
    const NamedParameters buffers = model->buffers(), expected_buffers = alone->buffers();
    ASSERT_FALSE(expected_buffers.empty());
    for (std::size_t i = 0; i < expected_buffers.size(); ++i)
      EXPECT_LT(relative_error(buffers[i].tensor, expected_buffers[i].tensor), kExact)
          << world << ' ' << expected_buffers[i].name;
  }
}

TEST_F(ExactRanks, RefuseStatisticsThatWouldBeEachRanksOwn) {
  for (const testing::Words& more :
       {testing::Words{"--model.batchnorm=micro"}, testing::Words{"--dist.local_steps=2"}})
    for (const Program::Result& result : train("refused", 2, more)) {
      EXPECT_EQ(result.status, 2);
      EXPECT_THAT(result.errors, HasSubstr("model.batchnorm with 2 ranks"));
    }
}

}  // namespace
}  // namespace accrue::train
