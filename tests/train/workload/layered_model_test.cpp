#include "train/workload/layered_model.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/optim/optimizer.h>

#include "accrue/train/custom.h"
#include "support/errors.h"
#include "train/run/kept_windows.h"
#include "train/tiny_run.h"
#include "train/tiny_torchscript.h"
#include "train/workload/offload_folder.h"
#include "train/workload/workload.h"

namespace accrue::train {
namespace {

using accrue::testing::usage_message;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LayeredModel : public testing::TinyRun {
 protected:
  Config layered() const {
    Config c = config();
    c.run.device = Device::cpu;
    c.memory.accumulation = AccumulationOrder::layered;
    return c;
  }
  Config offloaded() const {
    Config c = config();
    c.run.device = Device::cpu;
    c.memory.offload = folder_.string();
    return c;
  }
};

TEST_F(LayeredModel, OfSeveralSegmentsRunsInTheRequestedOrder) {
  Workload work = open_workload(config());
  EXPECT_FALSE(is_layered(work.config, *work.model));
  EXPECT_THAT(why_windows_are_not_kept(work, 1), IsEmpty());
  for (const Config& c : {layered(), offloaded()}) {
    work.config.memory = c.memory;
    EXPECT_TRUE(is_layered(work.config, *work.model));
    EXPECT_FALSE(takes_window_statistics(work.config, *work.model));
    EXPECT_THAT(why_windows_are_not_kept(work, 1), HasSubstr("layered accumulation"));
  }
}

TEST_F(LayeredModel, OfOneSegmentIsRefused) {
  const std::unique_ptr<models::Trainable> model = testing::tiny_torchscript();
  EXPECT_NO_THROW(check_layered_model(config(), *model));
  EXPECT_THAT(usage_message([&] { check_layered_model(layered(), *model); }),
              AllOf(HasSubstr("memory.accumulation: expected a model in several segments"),
                    HasSubstr("memory.accumulation = \"standard\"")));
  EXPECT_THAT(usage_message([&] { check_layered_model(offloaded(), *model); }),
              AllOf(HasSubstr("memory.offload: expected a model in several segments"),
                    HasSubstr("leaving memory.offload out")));
}

TEST_F(LayeredModel, MayBeOffloadedAlsoWithFrozenParameters) {
  const Workload work = open_workload(config());
  EXPECT_TRUE(may_be_offloaded(work));
  EXPECT_NO_THROW(check_layered_model(offloaded(), *work.model));
  at::Tensor first = work.model->parameters().front().tensor;
  first.requires_grad_(false);
  for (const Config& c : {layered(), offloaded()})
    EXPECT_NO_THROW(check_layered_model(c, *work.model));
  EXPECT_TRUE(may_be_offloaded(work));
}

TEST_F(LayeredModel, OnSeveralRanksMayBeOffloadedUnlessItsStateIsDivided) {
  Workload work = open_workload(config());
  work.ranks = 2;
  EXPECT_TRUE(may_be_offloaded(work));
  work.config.dist.shard = Shard::optimizer;
  EXPECT_FALSE(may_be_offloaded(work));
}

TEST_F(LayeredModel, WithAnOptimizerOfTheProgramIsNotOffloaded) {
  const Workload work = open_workload(config());
  const auto custom = std::make_shared<Custom>();
  custom->optimizer = [](const std::vector<at::Tensor>&) {
    return std::unique_ptr<torch::optim::Optimizer>();
  };
  Config c = offloaded();
  c.custom = custom;
  EXPECT_THAT(usage_message([&] { check_layered_model(c, *work.model); }),
              HasSubstr("an optimizer of the program's own"));
}

TEST_F(LayeredModel, IsOffloadedToAFolderThatIsThere) {
  EXPECT_TRUE(offload_folder(config()).empty());
  Config c = offloaded();
  EXPECT_EQ(offload_folder(c), folder_);
  c.memory.offload = (folder_ / "missing").string();
  EXPECT_THAT(usage_message([&] { offload_folder(c); }),
              AllOf(HasSubstr("memory.offload: expected an existing folder"),
                    HasSubstr("try mkdir -p " + c.memory.offload)));
  c.memory.offload = (folder_ / "text.txt").string();
  EXPECT_THAT(usage_message([&] { offload_folder(c); }), HasSubstr("which is not a folder"));
}

}  // namespace
}  // namespace accrue::train
