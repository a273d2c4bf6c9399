// The classes of images by a trained model.
#include "train/workload/predict.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "accrue/core/error.h"
#include "accrue/models/resnet.h"
#include "support/png.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::int64_t kClasses = 7, kSide = 8;

class Predict : public testing::TinyRun {
 protected:
  void SetUp() override {
    TinyRun::SetUp();
    image_ = folder_ / "image.png";
    std::ofstream(image_, std::ios::binary)
        << accrue::testing::png_of(kSide, kSide, 1, std::string(kSide * kSide, '\x40'));
  }

  /// A network whose last layer is only a bias, so that the probabilities are known.
  static Classifier with_logits(const std::vector<float>& logits) {
    TrainedModel trained;
    trained.checkpoint = "run/checkpoints/step-00000003";
    trained.config.model.kind = ModelKind::resnet;
    trained.config.model.image = {1, kSide, kSide};
    trained.config.model.classes = {"ant", "bee"};
    trained.model = std::make_unique<models::ResNet>(models::ResNetOptions{
        .layers = 8, .width = 2, .classes = kClasses, .image = {1, kSide, kSide}});
    const at::NoGradGuard no_grad;
    for (const NamedParameter& parameter : trained.model->file_tensors()) {
      if (parameter.name == "fc.weight") parameter.tensor.zero_();
      if (parameter.name == "fc.bias") parameter.tensor.copy_(at::tensor(logits));
    }
    return Classifier(std::move(trained));
  }

  std::vector<Prediction> told(Classifier classifier, const std::vector<fs::path>& files) const {
    std::vector<Prediction> predictions;
    classifier.predict(files, 3, [&](const Prediction& one) { predictions.push_back(one); });
    return predictions;
  }

  fs::path image_;
};

TEST_F(Predict, TellsTheLikeliestClassesFirstAndOfEqualOnesTheLowerNumber) {
  const std::vector<Prediction> predictions =
      told(with_logits({0, 2, 1, 0, 2, 0, 0}), {image_, folder_ / "none.png", image_});
  ASSERT_EQ(predictions.size(), 3U);
  const std::vector<ClassProbability>& top = predictions[2].top;
  ASSERT_EQ(top.size(), 3U);
  EXPECT_EQ(top[0].index, 1);
  EXPECT_EQ(top[0].name, "bee");
  EXPECT_EQ(top[1].index, 4);
  EXPECT_EQ(top[1].name, "4") << "a class without a name";
  EXPECT_EQ(top[2].index, 2);
  const double all = 4 + std::exp(1.0) + 2 * std::exp(2.0);
  EXPECT_NEAR(top[0].probability, std::exp(2.0) / all, 1e-12);
  EXPECT_NEAR(top[2].probability, std::exp(1.0) / all, 1e-12);
  EXPECT_TRUE(predictions[1].top.empty());
  EXPECT_THAT(predictions[1].failure, HasSubstr("none.png: No such file"));
}

TEST_F(Predict, OrdersNothingThatIsNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  try {
    told(with_logits({0, nan, 1, nan, 0, 0, 0}), {image_});
    FAIL() << "numbers that cannot be compared were sorted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::runtime);
    EXPECT_THAT(error.what(), HasSubstr("values that are not finite from run/checkpoints/"));
    EXPECT_THAT(error.what(), HasSubstr("try --checkpoint with an earlier step"));
  }
}

}  // namespace
}  // namespace accrue::train
