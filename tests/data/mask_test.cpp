#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "folder.h"
#include "planted_images.h"
#include "refusal.h"

namespace accrue::data {
namespace {

using namespace accrue::data::testing;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t ignored = -100;

Picture grey(std::int64_t height, std::int64_t width, std::vector<std::uint8_t> numbers) {
  return {height, width, 1, std::move(numbers)};
}

class Masks : public ::testing::Test {
 protected:
  void add(const std::string& name, const Picture& image, const Picture& mask) {
    folder.write("images/" + name + ".png", png(image));
    folder.write("masks/" + name + ".png", png(mask));
  }
  /// Three images of 2 x 3 and masks of classes 0, 1 and 2.
  void write_three() {
    for (const auto& [name, numbers] : masks)
      add(name, make_picture(2, 3, 3, numbers[0]), grey(2, 3, numbers));
  }
  SourceOptions options() const {
    return {.globs = {folder.path("images/**/*.*")}, .masks = {folder.path("masks/**/*.png")}};
  }
  std::unique_ptr<Source> open_all() const { return open_source(options(), "data.train"); }
  std::string refused(const SourceOptions& options) const {
    return refusal(Error::Kind::usage, [&] { open_source(options, "data.train"); });
  }
  std::string refused() const { return refused(options()); }

  const std::map<std::string, std::vector<std::uint8_t>> masks{
      {"a", {0, 1, 2, 0, 0, 1}}, {"b", {1, 1, 1, 255, 0, 0}}, {"c", {2, 2, 255, 1, 0, 2}}};
  Folder folder;
};

TEST_F(Masks, AreTheTargetsOfTheirImagesInTheOrderOfPaths) {
  write_three();
  const auto source = open_all();
  EXPECT_EQ(source->size(), 3);
  EXPECT_EQ(source->vocab(), 3);
  EXPECT_THAT(source->classes(), ElementsAre("0", "1", "2"));
  EXPECT_TRUE(source->has_masks());
  const batch::MicroBatch micro = fetch(*source, {2, 0, 1});
  EXPECT_EQ(micro.inputs.sizes(), (std::vector<std::int64_t>{3, 3, 2, 3}));
  EXPECT_EQ(micro.targets.sizes(), (std::vector<std::int64_t>{3, 2, 3}));
  EXPECT_EQ(micro.tokens, 3);
  EXPECT_THAT(values(micro.targets), ElementsAre(2, 2, ignored, 1, 0, 2,  // c
                                                 0, 1, 2, 0, 0, 1,        // a
                                                 1, 1, 1, ignored, 0, 0));
  const std::vector<double> levels = levels_of(make_picture(2, 3, 3, 2));
  EXPECT_NEAR(micro.inputs[0].flatten()[0].item<double>(), levels[0], 1e-6);
}

TEST_F(Masks, AreThoseOfTheirFolderWhereSeveralHaveAName) {
  const Picture image = make_picture(1, 2, 3, 1);
  add("cats/1", image, grey(1, 2, {1, 0}));
  add("dogs/1", image, grey(1, 2, {2, 0}));
  const auto source = open_all();
  EXPECT_THAT(values(fetch(*source, {0, 1}).targets), ElementsAre(1, 0, 2, 0));
  folder.write("images/birds/1.png", png(image));
  EXPECT_THAT(refused(), AllOf(HasSubstr("one mask for each image"), HasSubstr("birds/1.png")));
  folder.write("more/dogs/1.png", png(grey(1, 2, {2, 0})));
  SourceOptions both = options();
  both.globs = {folder.path("images/dogs/*")};
  both.masks.push_back(folder.path("more/dogs/*"));
  EXPECT_THAT(refused(both), HasSubstr("one mask for each image"));
}

/// Masks with the names of training images in another folder.
TEST_F(Masks, OfTrainingImagesAreNotThoseOfHeldOutOnes) {
  const Picture image = make_picture(1, 2, 3, 1);
  add("train/1", image, grey(1, 2, {1, 0}));
  add("train/2", image, grey(1, 2, {0, 1}));
  add("val/2", image, grey(1, 2, {1, 1}));
  SourceOptions held_out = options();
  held_out.globs = {folder.path("images/val/*")};
  held_out.other_images = {folder.path("images/train/*")};
  EXPECT_THAT(values(fetch(*open_source(held_out, "data.val"), {0}).targets), ElementsAre(1, 1));
  folder.write("images/val/1.png", png(image));
  EXPECT_THAT(refused(held_out), AllOf(HasSubstr("none for"), HasSubstr("val/1.png")));
  std::filesystem::remove_all(folder.root() / "masks/val");
  std::filesystem::remove(folder.root() / "images/val/1.png");
  EXPECT_THAT(refused(held_out), AllOf(HasSubstr("a mask of its own"), HasSubstr("2.png")))
      << "no folder of masks is called as theirs";
  held_out.exclude = {folder.path("images/train/2.png")};
  EXPECT_THAT(values(fetch(*open_source(held_out, "data.val"), {0}).targets), ElementsAre(0, 1));
  held_out.exclude.clear();
  held_out.other_images.clear();
  EXPECT_NO_THROW(open_source(held_out, "data.val")) << "the same as is seen beside them";
}

TEST_F(Masks, AreRefusedWhereTheyDoNotGoWithTheirImages) {
  write_three();
  folder.write("images/d.png", png(make_picture(2, 3, 3, 1)));
  EXPECT_THAT(refused(), AllOf(HasSubstr("data.masks"), HasSubstr("none for"), HasSubstr("d.png")));
  folder.write("masks/d.png", png(grey(3, 2, {0, 0, 0, 0, 0, 0})));
  EXPECT_THAT(refused(), AllOf(HasSubstr("its image's size, 2 x 3"), HasSubstr("d.png: 3 x 2")));
  folder.write("masks/d.png", png(make_picture(2, 3, 3, 1)));
  EXPECT_THAT(refused(), AllOf(HasSubstr("d.png: a PNG in colour"), HasSubstr("palette")));
  folder.write("masks/d.png", "no image");
  EXPECT_THAT(refused(), HasSubstr("d.png: no PNG"));
  folder.write("masks/d.png", png(grey(2, 3, {0, 0, 0, 0, 0, 0})));
  EXPECT_EQ(open_all()->size(), 4);
  folder.write("images/more/d.png", png(make_picture(2, 3, 3, 1)));
  EXPECT_THAT(refused(), HasSubstr("a mask of its own for each image"));
}

TEST_F(Masks, AreOfImagesInFilesOfTheirOwn) {
  write_three();
  SourceOptions text{.globs = {folder.write("text.txt", "text")}, .masks = options().masks};
  EXPECT_THAT(refused(text), AllOf(HasSubstr("data.masks"), HasSubstr("text")));
  SourceOptions records{.globs = {folder.write("cifar.bin", cifar_record({1}, 1))},
                        .format = Format::images,
                        .masks = options().masks};
  EXPECT_THAT(refused(records), AllOf(HasSubstr("data.masks"), HasSubstr("CIFAR")));
}

TEST_F(Masks, HaveNumbersBelowTheClasses) {
  write_three();
  SourceOptions bound = options();
  bound.vocab = 2;
  const auto source = open_source(bound, "data.train");
  EXPECT_EQ(source->vocab(), 2);
  const std::string said = refusal(Error::Kind::usage, [&] { fetch(*source, {0}); });
  EXPECT_THAT(said, AllOf(HasSubstr("a.png"), HasSubstr("classes below 2"),
                          HasSubstr("2 at row 0, column 2")));
  EXPECT_NO_THROW(fetch(*source, {1}));
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { source->check_contents(); }),
              HasSubstr("classes below 2"));
  SourceOptions held_out = options();
  held_out.classes = {"sky", "sea", "sand"};
  const auto known = open_source(held_out, "data.val");
  EXPECT_EQ(known->classes(), held_out.classes);
  EXPECT_NO_THROW(known->check_contents());
}

/// With 255 for foreground that would be ignored, and nothing would be learned.
TEST_F(Masks, OfOneClassAreRefused) {
  add("a", make_picture(1, 2, 3, 1), grey(1, 2, {0, 255}));
  EXPECT_THAT(refused(), AllOf(HasSubstr("masks of 0 and 255 alone"), HasSubstr("1, 2, ...")));
  SourceOptions bound = options();
  bound.vocab = 2;
  const auto source = open_source(bound, "data.train");
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { source->check_contents(); }),
              HasSubstr("masks of 0 and 255 alone"));
  bound.classes = {"0", "1"};  // of held-out data
  EXPECT_NO_THROW(open_source(bound, "data.val")->check_contents());
}

TEST_F(Masks, ThatDoNotDecodeLeaveTheirImageWithoutARow) {
  write_three();
  std::string damaged = png(grey(2, 3, {0, 1, 2, 0, 0, 1}));
  damaged[damaged.size() - 20] ^= 1;
  folder.write("masks/b.png", damaged);
  const auto source = open_all();
  const batch::MicroBatch micro = fetch(*source, {0, 1, 2});
  EXPECT_THAT(micro.sample_ids, ElementsAre(0, 2));
  EXPECT_THAT(values(micro.targets), ElementsAre(0, 1, 2, 0, 0, 1, 2, 2, ignored, 1, 0, 2));
  ASSERT_EQ(micro.unreadable.size(), 1U);
  EXPECT_EQ(micro.unreadable[0].sample_id, 1);
  EXPECT_THAT(micro.unreadable[0].reason, HasSubstr("masks/b.png"));
}

TEST_F(Masks, OfExcludedImagesNeedNotBe) {
  write_three();
  std::filesystem::remove(folder.root() / "masks/b.png");
  SourceOptions without = options();
  without.exclude = {folder.path("images/b.png")};
  const auto source = open_source(without, "data.train");
  const batch::MicroBatch micro = fetch(*source, {0, 1, 2});
  EXPECT_THAT(micro.sample_ids, ElementsAre(0, 2));
  EXPECT_TRUE(micro.unreadable.empty());
}

TEST_F(Masks, BelongToTheFingerprint) {
  write_three();
  const std::string before = open_all()->fingerprint();
  EXPECT_EQ(before, open_all()->fingerprint());
  folder.write("masks/a.png", png(grey(2, 3, {0, 1, 2, 0, 0, 2})));
  EXPECT_NE(before, open_all()->fingerprint());
  bool has_mask = false;
  for (const DataFile& file : open_all()->files())
    has_mask = has_mask || file.path == folder.root() / "masks/a.png";
  EXPECT_TRUE(has_mask);
}

/// However a batch is split, and wherever a sample is in it.
TEST_F(Masks, AreChangedByTheirDrawAlone) {
  for (int i = 0; i < 4; ++i) {
    std::vector<std::uint8_t> numbers;
    for (int pixel = 0; pixel < 20 * 24; ++pixel)
      numbers.push_back(static_cast<std::uint8_t>((pixel * 7 + i) % 5));
    add(std::string(1, static_cast<char>('a' + i)), make_picture(20, 24, 3, 5),
        grey(20, 24, numbers));
  }
  SourceOptions changed = options();
  changed.image = {0, 16, 16};
  changed.augment = {.crop = Interval{0.3, 1}, .flip = 0.5};
  const auto source = open_source(changed, "data.train");
  const std::vector<std::int64_t> all{0, 1, 2, 3}, draws{8, 5, 30, 11};
  const batch::MicroBatch whole = source->fetch_drawn(all, draws);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const batch::MicroBatch alone =
        source->fetch_drawn(std::span(&all[i], 1), std::span(&draws[i], 1));
    EXPECT_TRUE(at::equal(whole.targets[static_cast<std::int64_t>(i)], alone.targets[0]));
    EXPECT_TRUE(at::equal(whole.inputs[static_cast<std::int64_t>(i)], alone.inputs[0]));
    const std::int64_t other = draws[i] + 1;
    EXPECT_FALSE(
        at::equal(alone.targets[0],
                  source->fetch_drawn(std::span(&all[i], 1), std::span(&other, 1)).targets[0]));
  }
  const auto held_out = slice(open_source(changed, "data.train"), 2, 4);
  EXPECT_TRUE(held_out->has_masks());
  EXPECT_TRUE(at::equal(held_out->fetch(std::vector<std::int64_t>{1}).targets,
                        source->fetch(std::vector<std::int64_t>{3}).targets));
}

TEST_F(Masks, AreErasedNowhereAndIgnoredOutsideOfTheImage) {
  const std::vector<std::uint8_t> numbers(64, 1);
  add("a", make_picture(8, 8, 3, 1), grey(8, 8, numbers));
  SourceOptions changed = options();
  changed.augment = {.pad = 4};
  const std::int64_t index = 0, draw = 1;
  const auto drawn = [&] {
    return open_source(changed, "data.train")
        ->fetch_drawn(std::span(&index, 1), std::span(&draw, 1));
  };
  const batch::MicroBatch padded = drawn();
  const at::Tensor outside = padded.targets[0].eq(ignored);
  EXPECT_TRUE(outside.any().item<bool>());
  EXPECT_TRUE(at::equal(outside, padded.inputs[0].eq(-1).all(0))) << "where the image is black";
  changed.augment = {.erase = 1};
  const batch::MicroBatch erased = drawn();
  EXPECT_TRUE(erased.inputs.eq(0).any().item<bool>());
  EXPECT_TRUE(erased.targets.eq(1).all().item<bool>());
}

}  // namespace
}  // namespace accrue::data
