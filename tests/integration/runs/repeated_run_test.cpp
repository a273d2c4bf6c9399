// Runs that repeat others, in this process.
#include <gmock/gmock.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "accrue/train/run_record.h"
#include "accrue/train/trainer.h"
#include "core/atomic_file.h"
#include "support/errors.h"
#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

using accrue::testing::usage_message;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::Recorder;
using testing::SignalAfter;
using testing::TinyRun;

constexpr const char* bits_again = "the same bits are to be expected";

class RepeatedRun : public TinyRun {
 protected:
  Config fixed() const {
    Config c = config("first");
    c.precision.accumulate = accum::Accumulation::fixed;
    c.model.dropout = 0.1;
    return c;
  }

  std::shared_ptr<const RunRecord> record(const Config& c) const {
    return read_run_record(RunDirectory(c.run.out));
  }

  /// Repeats the run of `c` into the folder `out`; returns the new run's config.
  Config repeat(const Config& c, const std::string& out, std::vector<std::string> overrides = {},
                bool accept_data = false) {
    overrides.push_back("run.out=" + (folder_ / out).string());
    const auto repeated = record(c);
    const Config again = config_to_repeat(*repeated, overrides);
    Trainer trainer(again);
    recorder_ = std::make_shared<Recorder>();
    trainer.add_observer(recorder_);
    trainer.run({.repeats = repeated, .accept_data = accept_data});
    return again;
  }

  /// The messages of the last repetition.
  std::vector<std::string> said() const {
    std::vector<std::string> reasons;
    for (const Event& event : recorder_->events)
      if (event.name == "repeat") reasons.push_back(event.reason);
    return reasons;
  }

  static nlohmann::json run_json(const Config& c) {
    return nlohmann::json::parse(read_file(RunDirectory(c.run.out).run_file()));
  }

  static bool has_same_bits(const Config& a, const Config& b) {
    const NamedParameters one = parameters_of(a), other = parameters_of(b);
    return std::ranges::equal(one, other, [](const NamedParameter& x, const NamedParameter& y) {
      return at::equal(x.tensor, y.tensor);
    });
  }

  std::shared_ptr<Recorder> recorder_;
};

TEST_F(RepeatedRun, HasTheSameBits) {
  const Config first = fixed();
  Trainer(first).run();
  const Config second = repeat(first, "second");
  EXPECT_TRUE(has_same_bits(second, first));
  EXPECT_THAT(said(), AllOf(::testing::SizeIs(2), Contains(HasSubstr(bits_again))));
  const nlohmann::json info = run_json(second);
  EXPECT_EQ(info["repeats"]["run"], first.run.out);
  EXPECT_EQ(info["repeats"]["differences"], nlohmann::json::array());
  EXPECT_EQ(info["ended"]["state"], "done");
  EXPECT_EQ(info["ended"]["step"], 6);
  EXPECT_EQ(info["start"], run_json(first)["start"]);

  const Config other = repeat(first, "other", {"run.seed=2"});
  EXPECT_FALSE(has_same_bits(other, first)) << "the control";
  EXPECT_THAT(said(), Contains(HasSubstr("run.seed = 2 (was 1337)")));
  EXPECT_THAT(said(), Contains(HasSubstr("not to be expected, because of: run.seed")));
}

TEST_F(RepeatedRun, OfARepetitionIsOneToo) {
  const Config first = fixed();
  Trainer(first).run();
  const Config third = repeat(repeat(first, "second"), "third");
  EXPECT_TRUE(has_same_bits(third, first));
}

TEST_F(RepeatedRun, KeepsThePlanAndMeasuresNothing) {
  Config first = fixed();
  first.batch.micro.reset();
  Trainer trainer(first);
  trainer.run();
  const nlohmann::json plan = run_json(first)["plan"];
  EXPECT_GT(plan["predicted_peak_bytes"], 0);
  EXPECT_EQ(plan["micro_batch"], trainer.plan().micro_batch);
  const Config second = repeat(first, "second");
  const nlohmann::json again = run_json(second)["plan"];
  EXPECT_EQ(again["micro_batch"], plan["micro_batch"]);
  EXPECT_EQ(again["recompute"], plan["recompute"]);
  EXPECT_THAT(again["reason"].get<std::string>(), HasSubstr(plan["reason"].get<std::string>()));
  EXPECT_FALSE(again.contains("predicted_peak_bytes")) << "there were no trials";
  EXPECT_TRUE(has_same_bits(second, first));
  EXPECT_EQ(run_json(second)["start"], run_json(first)["start"]) << "trials leave no trace";

  const nlohmann::json changed = run_json(repeat(first, "changed", {"batch.micro=1"}))["plan"];
  EXPECT_EQ(changed["micro_batch"], 1);
  EXPECT_THAT(said(), Contains(HasSubstr("a plan of its own")));
}

TEST_F(RepeatedRun, OfOneThatWasResumedGoesInOneGo) {
  const Config first = fixed();
  Trainer interrupted(first);
  interrupted.add_observer(std::make_shared<SignalAfter>(10, SIGINT));
  const std::int64_t done = interrupted.run().step;
  EXPECT_EQ(run_json(first)["ended"]["state"], "interrupted");
  EXPECT_EQ(run_json(first)["ended"]["step"], done);
  Trainer(first).run({.resume = true});
  EXPECT_EQ(run_json(first)["ended"]["state"], "done");
  const Config second = repeat(first, "second");
  EXPECT_TRUE(has_same_bits(second, first));
  EXPECT_THAT(said(), Contains("the run was resumed after step " + std::to_string(done)));
  EXPECT_THAT(said(), Contains(HasSubstr(bits_again)));
}

TEST_F(RepeatedRun, OfOneThatWasMadeLongerSaysThatItsRatesWereOthers) {
  Config first = fixed();
  Trainer(first).run();
  first.run.steps = 8;
  Trainer(first).run({.resume = true});
  EXPECT_EQ(run_json(first)["config"]["run"]["steps"], 8);
  const Config second = repeat(first, "second");
  EXPECT_EQ(*second.run.steps, 8);
  EXPECT_THAT(said(), Contains(HasSubstr("after step 6: run.steps = 8 (was 6)")));
  EXPECT_THAT(said(), Contains(HasSubstr("what changed when it was resumed")));
  EXPECT_FALSE(has_same_bits(second, first)) << "the sentence is true";
}

TEST_F(RepeatedRun, NamesAFileThatChangedAndWritesNothing) {
  const Config first = fixed();
  Trainer(first).run();
  std::ofstream(folder_ / "text.txt", std::ios::app) << "one more line\n";
  EXPECT_THAT(usage_message([&] { repeat(first, "second"); }),
              AllOf(HasSubstr("text.txt grew from"), HasSubstr("--accept-data")));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "second"));
  repeat(first, "second", {}, /*accept_data=*/true);
  EXPECT_THAT(said(), Contains(HasSubstr("text.txt grew from")));
  EXPECT_THAT(said(), Contains(HasSubstr("because of: data")));
}

TEST_F(RepeatedRun, NamesAModelToStartFromThatChanged) {
  const Config base = config("base");
  Trainer(base).run();
  Config first = fixed();
  first.model = {};
  first.model.from = base.run.out;
  Trainer(first).run();
  EXPECT_TRUE(has_same_bits(repeat(first, "second"), first));
  std::filesystem::remove_all(base.run.out);
  Config other = base;
  other.run.seed = 5;
  Trainer(other).run();
  EXPECT_FALSE(has_same_bits(repeat(first, "third"), first));
  EXPECT_THAT(said(), Contains("it starts from other parameters"));
}

TEST_F(RepeatedRun, APreviewSaysTheSameAndWritesNothing) {
  const Config first = fixed();
  Trainer(first).run();
  const auto repeated = record(first);
  const Config again =
      config_to_repeat(*repeated, {"run.out=" + (folder_ / "second").string(), "optim.lr=1e-3"});
  const Preview preview = Trainer(again).preview({.repeats = repeated});
  EXPECT_THAT(preview.repetition, Contains(HasSubstr("optim.lr = 0.001")));
  EXPECT_EQ(preview.plan.micro_batch, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "second"));
}

TEST_F(RepeatedRun, GoesOnWhereItsEndCannotBeNoted) {
  const Config c = fixed();
  Trainer trainer(c);
  const auto recorder = std::make_shared<Recorder>();
  trainer.add_observer(recorder);
  trainer.add_observer(std::make_shared<testing::AfterStep>(5, [&] {
    std::filesystem::remove(RunDirectory(c.run.out).run_file());
    std::filesystem::create_directory(RunDirectory(c.run.out).run_file());
  }));
  EXPECT_EQ(trainer.run().step, 6);
  EXPECT_EQ(recorder->events.back().name, "run_directory");
  EXPECT_THAT(recorder->events.back().reason, HasSubstr("does not say that the run has ended"));
}

}  // namespace
}  // namespace accrue::train
