#include "observe/history/run_config.h"

#include <gmock/gmock.h>

#include "observe/history/run_history.h"

namespace accrue::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::map<std::string, std::string> flat(const std::string& run_json, const std::string& toml) {
  RunHistory run;
  run.run_json = run_json;
  run.config_toml = toml;
  return flat_config(run);
}

TEST(RunConfig, IsThatOfRunJson) {
  const std::string run = R"({"config":{"optim":{"lr":0.0003,"schedule":{"kind":"cosine"}},)"
                          R"("data":{"train":["a.txt"]},"run":{"steps":10,"keep_best":true}}})";
  EXPECT_THAT(flat(run, "[optim]\nlr = 1.0\n"),
              ElementsAre(Pair("data.train", "[\"a.txt\"]"), Pair("optim.lr", "0.0003"),
                          Pair("optim.schedule.kind", "cosine"), Pair("run.keep_best", "true"),
                          Pair("run.steps", "10")));
}

TEST(RunConfig, IsThatOfTheConfigFileWhereRunJsonHasNone) {
  const std::string toml =
      "[run]\nout = \"runs/a = \\\"b\\\"\"\nsteps = 10\n\n[optim]\nlr = 0.0003\neps = 1e-08\n"
      "betas = [0.9, 0.95]\nschedule.kind = \"cosine\"\nodd = inf\n";
  EXPECT_THAT(flat("{}", toml),
              ElementsAre(Pair("optim.betas", "[0.9,0.95]"), Pair("optim.eps", "1e-08"),
                          Pair("optim.lr", "0.0003"), Pair("optim.odd", "inf"),
                          Pair("optim.schedule.kind", "cosine"), Pair("run.out", "runs/a = \"b\""),
                          Pair("run.steps", "10")));
}

TEST(RunConfig, LeavesOutWhatIsNestedBeyondReason) {
  const std::size_t depth = 100'000;
  const std::string lists = std::string(depth, '[') + std::string(depth, ']');
  std::string objects;
  for (std::size_t i = 0; i < depth; ++i) objects += "{\"a\":";
  objects += "1" + std::string(depth, '}');
  EXPECT_LT(flat(R"({"config":{"data":{"train":)" + lists + "}}}", "")["data.train"].size(), 100U);
  EXPECT_LT(flat(R"({"config":{"data":)" + objects + "}}", "").size(), 2U);
  EXPECT_EQ(flat("", "[data]\ntrain = " + lists + "\n")["data.train"], lists)
      << "a text, through which nobody walks";
}

TEST(RunConfig, IsEmptyWhereThereIsNone) {
  EXPECT_THAT(flat("", ""), IsEmpty());
  EXPECT_THAT(flat(R"({"config":5})", "what\n[is]\nthis"), IsEmpty());
}

}  // namespace
}  // namespace accrue::observe
