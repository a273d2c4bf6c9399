// loss.kind = "dpo": the reference is read once, kept, and found again; runs learn the preference.
#include "train/workload/pair_reference.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "train/tiny_run.h"
#include "train/workload/reference_bytes.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

TEST(ReferenceBytes, AreReadBackWhereTheyAreOfSoManyPairs) {
  const std::vector<double> numbers{-1, -2.5, -3, -4};
  const std::string bytes = reference_to_bytes(numbers);
  EXPECT_EQ(reference_of_bytes(bytes, 2), numbers);
  EXPECT_FALSE(reference_of_bytes(bytes, 1));
  EXPECT_FALSE(reference_of_bytes(bytes, std::int64_t{1} << 60));
  EXPECT_FALSE(reference_of_bytes(bytes.substr(1), 2));
  EXPECT_TRUE(reference_of_bytes("", 0));
  EXPECT_FALSE(reference_of_bytes(reference_to_bytes({NAN, 1}), 1));
}

class PreferenceRun : public testing::TinyRun {
 protected:
  Config pairs(const std::string& out) const {
    std::ofstream lines(folder_ / "pairs.jsonl");
    for (int i = 0; i < 40; ++i)
      lines << json{{"prompt", "n" + std::to_string(i) + " "},
                    {"chosen", std::string(1 + i % 5, 'y')},
                    {"rejected", std::string(1 + i % 7, 'n')}}
            << "\n";
    Config c = config(out);
    c.loss.kind = models::LossKind::dpo;
    c.data.train = {(folder_ / "pairs.jsonl").string()};
    c.batch = {.samples = 8, .micro = 3};
    c.run.steps = 8;
    return c;
  }

  std::vector<fs::path> kept_references() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_ / ".accrue-text"))
      if (entry.path().extension() == ".reference") found.push_back(entry.path());
    return found;
  }

  static std::vector<json> metrics_of(const Config& c) {
    std::ifstream lines(RunDirectory(c.run.out).metrics_file());
    std::vector<json> metrics;
    for (std::string line; std::getline(lines, line);)
      if (json object = json::parse(line); object.contains("loss")) metrics.push_back(object);
    return metrics;
  }
};

TEST_F(PreferenceRun, BeginsAtLogTwoAndLearns) {
  const Config c = pairs("run");
  Trainer(c).run();
  const std::vector<json> steps = metrics_of(c);
  EXPECT_NEAR(steps.front()["loss"].get<double>(), std::log(2), 1e-5);
  EXPECT_LT(steps.back()["loss"].get<double>(), 0.6);
  EXPECT_GT(steps.back()["losses"]["accuracy"].get<double>(), 0.8);
  EXPECT_GT(steps.back()["losses"]["margin"].get<double>(), 0);
}

TEST_F(PreferenceRun, ReadsItsReferenceOnce) {
  std::int64_t told = 0;
  const ShowProgress show = [&](const OperationProgress& progress) {
    if (progress.name == "reading pairs with the reference") ++told;
  };
  Trainer(pairs("one"), nullptr, show).run();
  EXPECT_GT(told, 0);
  EXPECT_EQ(kept_references().size(), 2u) << "of the training and the held-out pairs";
  told = 0;
  Trainer(pairs("two"), nullptr, show).run();
  EXPECT_EQ(told, 0) << "it was kept";
  expect_same_bits(parameters_of(pairs("one")), parameters_of(pairs("two")));
  Config other = pairs("three");
  other.run.seed = 5;  // another model
  Trainer(other, nullptr, show).run();
  EXPECT_GT(told, 0);
}

TEST_F(PreferenceRun, MakesADamagedReferenceAgain) {
  Trainer(pairs("fresh")).run();
  const NamedParameters wanted = parameters_of(pairs("fresh"));
  const fs::path kept = kept_references().front();
  const std::string whole = read_file(kept);
  for (const std::size_t at : {std::size_t{0}, whole.size() / 2, whole.size() - 1}) {
    std::string damaged = whole;
    damaged[at] ^= 1;
    for (const std::string& bytes : {damaged, whole.substr(0, at)}) {
      write_file_atomically(kept, bytes);
      const Config again = pairs("again");
      fs::remove_all(again.run.out);
      Trainer(again).run();
      expect_same_bits(parameters_of(again), wanted);
      EXPECT_EQ(read_file(kept), whole);
      EXPECT_THAT(read_file(RunDirectory(again.run.out).metrics_file()),
                  HasSubstr("it is made again"));
    }
  }
}

TEST_F(PreferenceRun, SaysThatAReferenceWasDamagedAsItGoesOn) {
  Config c = pairs("run");
  Trainer(c).run();
  for (const fs::path& kept : kept_references()) write_file_atomically(kept, "not these");
  c.run.steps = 9;
  Trainer(c).run({.resume = true});
  EXPECT_THAT(read_file(RunDirectory(c.run.out).metrics_file()), HasSubstr("are made again"));
}

TEST_F(PreferenceRun, ResumesToTheSameBits) {
  Config half = pairs("half");
  half.run.steps = 4;
  half.optim.schedule.kind = optim::ScheduleKind::constant;
  Trainer(half).run();
  Config whole = pairs("whole");
  whole.optim.schedule.kind = optim::ScheduleKind::constant;
  Trainer(whole).run();
  half.run.steps = 8;
  fs::remove_all(folder_ / ".accrue-text");  // it is made again, with the model at the start
  Trainer(half).run({.resume = true});
  expect_same_bits(parameters_of(half), parameters_of(whole));
}

}  // namespace
}  // namespace accrue::train
