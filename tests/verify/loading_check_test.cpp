// Errors in the loading of micro-batches are found by comparison with their single samples.
#include "verify/config/loading_check.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "accrue/data/own_source.h"
#include "configs_to_verify.h"

namespace accrue::proof {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Change = std::function<void(batch::MicroBatch&)>;

/// Data whose micro-batches of several samples are changed.
class ChangedSource final : public data::Source {
 public:
  ChangedSource(std::shared_ptr<const data::Source> sound, Change change)
      : sound_(std::move(sound)), change_(std::move(change)) {}

  std::int64_t size() const override { return sound_->size(); }
  std::int64_t vocab() const override { return sound_->vocab(); }
  std::int64_t tokens(std::int64_t index) const override { return sound_->tokens(index); }
  std::optional<std::int64_t> uniform_tokens() const override { return sound_->uniform_tokens(); }
  std::string fingerprint() const override { return sound_->fingerprint(); }
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    batch::MicroBatch micro = sound_->fetch(indices);
    if (indices.size() > 1) change_(micro);
    return micro;
  }

 private:
  std::shared_ptr<const data::Source> sound_;
  Change change_;
};

class LoadingCheck : public testing::ConfigsToVerify {
 protected:
  static std::vector<std::string> faults(const train::Config& config, Change change) {
    const train::Workload work = train::open_workload(config);
    const auto source = std::make_shared<ChangedSource>(work.data.train, std::move(change));
    const data::Loader loader(source, train::make_sampler(work.config, *source));
    return faults_of_loading(loader, {{0, 4}, {4, 8}, {8, 10}});
  }
  train::Config of_lines(bool packing) const {
    std::ofstream lines(folder_ / "data.jsonl");
    for (int i = 0; i < 40; ++i)
      lines << R"({"prompt": ")" << std::string(static_cast<std::size_t>(1 + i % 5), 'a')
            << R"(", "completion": ")" << std::string(static_cast<std::size_t>(1 + i * 3 % 11), 'b')
            << R"(", "weight": )" << 1 + i % 3 << "}\n";
    lines.close();
    train::Config config = base();
    config.model.heads = 2;
    config.model.width = 16;
    config.model.context = 24;
    config.data.packing = packing;
    config.data.train = {(folder_ / "data.jsonl").string()};
    return config;
  }
};

TEST_F(LoadingCheck, SoundMicroBatchesOfAnyKindAreFound) {
  const Change none = [](batch::MicroBatch&) {};
  EXPECT_THAT(faults(of_text(), none), IsEmpty());
  EXPECT_THAT(faults(of_resnet(models::BatchNormPolicy::micro), none), IsEmpty());
  for (const bool packing : {false, true})
    EXPECT_THAT(faults(of_lines(packing), none), IsEmpty()) << packing;
}

TEST_F(LoadingCheck, WhatIsNotAsItIsAloneIsFound) {
  const auto in_place_2 =
      ElementsAre(HasSubstr("draw 2 of the micro-batch of draws 0 to 3 is not"));
  EXPECT_THAT(faults(of_text(), [](batch::MicroBatch& m) { m.inputs[2][3] = 1; }), in_place_2);
  EXPECT_THAT(faults(of_text(), [](batch::MicroBatch& m) { m.targets[2][3] = 1; }), in_place_2);
  EXPECT_THAT(faults(of_lines(false), [](batch::MicroBatch& m) { m.weights[2].mul_(2); }),
              in_place_2);
  EXPECT_THAT(faults(of_resnet(models::BatchNormPolicy::micro),
                     [](batch::MicroBatch& m) { m.inputs[2] = m.inputs[1]; }),
              in_place_2);
}

TEST_F(LoadingCheck, LabelsBehindASampleAreFound) {
  EXPECT_THAT(faults(of_lines(false),
                     [](batch::MicroBatch& m) { m.targets.masked_fill_(m.targets.eq(-100), 7); }),
              ElementsAre(HasSubstr("is not the sample that it is by itself")));
}

/// Samples of columns, one of which has lists that are padded to the longest; no targets.
batch::MicroBatch columns_of(std::span<const std::int64_t> indices) {
  std::int64_t longest = 0;
  for (const std::int64_t index : indices) longest = std::max(longest, 1 + index % 4);
  const at::Tensor numbers = at::tensor(std::vector(indices.begin(), indices.end()), at::kLong);
  const at::Tensor lists = numbers.add(1).unsqueeze(1).expand({-1, longest});
  const at::Tensor is_padding =
      at::arange(longest).unsqueeze(0) > numbers.remainder(4).unsqueeze(1);
  return {.inputs = lists.masked_fill(is_padding, 0),
          .columns = {{"lists", lists.masked_fill(is_padding, 0)}, {"numbers", numbers}}};
}

TEST_F(LoadingCheck, ColumnsAreComparedRowByRow) {
  const auto sound = data::own_source({.size = 40, .fetch = columns_of, .identity = "columns"});
  const auto faults_where = [&](const Change& change) {
    const auto source = std::make_shared<ChangedSource>(sound, change);
    return faults_of_loading(data::Loader(source, train::make_sampler(base(), *source)),
                             {{0, 4}, {4, 8}, {8, 10}});
  };
  EXPECT_THAT(faults_where([](batch::MicroBatch&) {}), IsEmpty());
  const auto in_place_2 =
      ElementsAre(HasSubstr("draw 2 of the micro-batch of draws 0 to 3 is not"));
  EXPECT_THAT(faults_where([](batch::MicroBatch& m) { m.columns.at("numbers")[2] = 99; }),
              in_place_2);
  EXPECT_THAT(faults_where([](batch::MicroBatch& m) { m.columns.at("lists")[2][0] = 99; }),
              in_place_2);
  EXPECT_THAT(faults_where([](batch::MicroBatch& m) { m.inputs[2][0] = 99; }), in_place_2);
}

TEST_F(LoadingCheck, IsToBlameForWhatFollowsFromIt) {
  train::Workload work = train::open_workload(of_text());
  work.data.train = std::make_shared<ChangedSource>(work.data.train, [](batch::MicroBatch& micro) {
    micro.inputs[1] = micro.inputs[0];
    micro.targets[1] = micro.targets[0];
  });
  const Report report = verify_workload(std::move(work));
  EXPECT_FALSE(report.equal);
  EXPECT_GT(report.max_relative_error, report.bound);
  EXPECT_EQ(all_causes(report), std::vector{Cause::unknown});
  EXPECT_EQ(report.place, Place::data);
  EXPECT_THAT(report.evidence,
              ::testing::Contains(HasSubstr("is not the sample that it is by itself")));
  EXPECT_THAT(report.ruled_out, ::testing::Not(::testing::Contains(HasSubstr("agree"))));
}

}  // namespace
}  // namespace accrue::proof
