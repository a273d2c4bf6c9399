// A value that is not finite only in training's computation is a difference; one that is not finite
// in a plain pass, too, is caused by the data.
#include <gmock/gmock.h>

#include <limits>

#include "accrue/core/error.h"
#include "changed_model.h"
#include "configs_to_verify.h"

namespace accrue::proof {
namespace {

using testing::ChangedModel;
using ::testing::Contains;
using ::testing::HasSubstr;

class NotFiniteWindow : public testing::ConfigsToVerify {
 protected:
  /// The loss of micro-batches of `samples` is not finite: in training's computation, or in all.
  static Report verified(const train::Config& config, std::int64_t samples, bool every_way) {
    const auto overflows = [=](testing::LossHeads& heads) {
      heads.front().forward = [=, sound = heads.front().forward](
                                  const models::Activations& x, const batch::MicroBatch& micro,
                                  const ForwardContext& context, double scale) {
        Loss loss = sound(x, micro, context, scale);
        const bool is_training = !context.operations;
        if ((every_way || is_training) && micro.inputs.size(0) == samples)
          loss.sum = loss.sum * std::numeric_limits<double>::infinity();
        return loss;
      };
    };
    train::Workload work = train::open_workload(config);
    work.model =
        std::make_unique<ChangedModel>(std::move(work.model), ChangedModel::Fault{{}, overflows});
    return verify_workload(std::move(work));
  }
};

TEST_F(NotFiniteWindow, ByTrainingsWayAloneIsADifference) {
  for (const std::int64_t samples : {4, 7}) {  // the window's micro-batches, and those of a split
    const Report report = verified(of_text(), samples, false);
    EXPECT_FALSE(report.equal);
    EXPECT_EQ(to_string(report.cause), "unknown");
    EXPECT_EQ(report.place, Place::not_finite);
    EXPECT_GT(report.max_relative_error, report.bound);
    EXPECT_THAT(conclusion(report), HasSubstr("not finite"));
    EXPECT_THAT(report.evidence, Contains(HasSubstr("plain passes")));
  }
}

/// If there is already a difference, overflows of plain steps are not attributed to anything.
TEST_F(NotFiniteWindow, OfPlainPassesBesideADifferenceIsLeftOut) {
  train::Config config = of_resnet(models::BatchNormPolicy::micro);
  config.optim.lr = 1e30;
  const Report report = verify_config(config);
  EXPECT_FALSE(report.equal);
  EXPECT_EQ(all_causes(report), std::vector{Cause::batchnorm});
  EXPECT_THAT(report.left_out, Contains(HasSubstr("not finite")));
}

TEST_F(NotFiniteWindow, ByEveryWayIsTheDatas) {
  try {
    verified(of_text(), 10, true);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::usage);
    EXPECT_THAT(error.what(), HasSubstr("looking at the data"));
  }
}

}  // namespace
}  // namespace accrue::proof
