#include "data/images/transform/image_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/folder.h"
#include "data/images/sets/image_files.h"
#include "data/planted_images.h"
#include "data/refusal.h"

/// tests/data/image_golden.py compares many images with Pillow; these cases need no Python.
namespace accrue::data {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::Folder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::make_picture;
using testing::Picture;
using testing::png;

std::vector<std::uint8_t> fitted(const DecodedImage& image, const ImageShape& target) {
  std::vector<std::uint8_t> planes(
      static_cast<std::size_t>(target.channels * target.height * target.width));
  fit_image(image, target, planes);
  return planes;
}

DecodedImage decoded(const Picture& picture) {
  return {.shape = {picture.channels, picture.height, picture.width},
          .bytes = {picture.pixels.begin(), picture.pixels.end()}};
}

/// By Pillow 13.0.0: Image.fromarray(numpy.uint8(numpy.arange(48).reshape(6, 8) * 37 % 251))
/// .resize((5, 4), Image.Resampling.BILINEAR), of which torchvision's CenterCrop(4) takes the first
/// four columns, half a pixel going to the even margin.
TEST(ImageFit, ScalesAndCutsAsPillowAndTorchvisionDo) {
  DecodedImage image{.shape = {1, 6, 8}, .bytes = {}};
  for (int i = 0; i < 48; ++i) image.bytes.push_back(static_cast<std::uint8_t>(i * 37 % 251));
  const auto by_pillow =
      ElementsAre(32, 88, 147, 181, 95, 151, 190, 105, 160, 154, 120, 87, 159, 53, 87, 145);
  EXPECT_THAT(fitted(image, {1, 4, 4}), by_pillow);
  std::ranges::reverse(image.bytes);
  EXPECT_THAT(fitted(image, {1, 4, 4}), ::testing::Not(by_pillow)) << "the control";
}

TEST(ImageFit, IsTheSameFromPlanesAndFromPixels) {
  const Picture picture = make_picture(9, 7, 3, 1);
  DecodedImage planes{.shape = {3, 9, 7}, .bytes = {}, .in_planes = true};
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t i = c; i < picture.pixels.size(); i += 3)
      planes.bytes.push_back(picture.pixels[i]);
  for (const ImageShape& target : {ImageShape{3, 9, 7}, {3, 5, 5}, {1, 9, 7}, {1, 12, 4}})
    EXPECT_EQ(fitted(decoded(picture), target), fitted(planes, target));
}

TEST(ImageFit, MakesGreyOfColourByItsLumaAndColourOfGreyByRepeating) {
  const DecodedImage primaries{.shape = {3, 1, 4},
                               .bytes = {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 100, 200}};
  // 0.299 R + 0.587 G + 0.114 B, to the nearest.
  EXPECT_THAT(fitted(primaries, {1, 1, 4}), ElementsAre(76, 150, 29, 84));
  const DecodedImage grey{.shape = {1, 1, 2}, .bytes = {7, 9}};
  EXPECT_THAT(fitted(grey, {3, 1, 2}), ElementsAre(7, 9, 7, 9, 7, 9));
}

TEST(ImageFit, KeepsAnEvenImageEven) {
  for (const ImageShape& shape : {ImageShape{3, 1, 1}, {3, 100, 3}, {3, 17, 40}}) {
    const DecodedImage image{
        .shape = shape,
        .bytes = CountedBytes(static_cast<std::size_t>(3 * shape.height * shape.width), 123)};
    EXPECT_THAT(fitted(image, {3, 16, 24}), Each(123));
  }
}

/// Scaled as a whole it would have 4 million by 256 pixels; the kept part is uniform.
TEST(ImageFit, MakesNoMoreOfALongImageThanIsKept) {
  for (const ImageShape& shape : {ImageShape{1, 1, 16384}, {1, 16384, 1}}) {
    DecodedImage line{.shape = shape, .bytes = CountedBytes(16384, 200)};
    line.bytes.front() = line.bytes.back() = 0;
    EXPECT_THAT(fitted(line, {1, 256, 256}), Each(200));
  }
}

TEST(ImageFiles, AreFoundByNameFolderAndPattern) {
  const Folder folder;
  const std::string image = png(make_picture(2, 2, 1, 1));
  for (const char* name :
       {"b/2.PNG", "b/1.png", "b/.hidden/3.png", "a.png", "b/c/0.jpg", "b/notes.txt"})
    folder.write(name, image);
  const auto found = [&](const std::vector<std::string>& names) {
    std::vector<std::string> relative;
    for (const auto& path : find_images(names, "IMAGES"))
      relative.push_back(path.lexically_relative(folder.root()).string());
    return relative;
  };
  EXPECT_THAT(found({folder.path("b"), folder.path("a.png")}),
              ElementsAre("b/1.png", "b/2.PNG", "b/c/0.jpg", "a.png"));
  EXPECT_THAT(found({folder.path("b/*")}), ElementsAre("b/1.png", "b/2.PNG", "b/notes.txt"));
  std::filesystem::create_directories(folder.path("empty"));
  for (const char* name : {"empty", "none.png", "none/*"})
    EXPECT_THAT(testing::refusal(Error::Kind::usage, [&] { found({folder.path(name)}); }),
                HasSubstr("IMAGES"));
}

TEST(ImageFiles, AreReadAsTrainingReadsThem) {
  const Folder folder;
  const Picture cat = make_picture(9, 12, 3, 1), dog = make_picture(16, 16, 1, 2);
  folder.write("cat/1.png", png(cat));
  folder.write("dog/1.png", png(dog));
  const auto source =
      open_source({.globs = {folder.path("*/*")}, .image = {0, 8, 8}}, "data.train");
  const ImageShape shape = source->image_shape().value();
  EXPECT_EQ(shape, (ImageShape{3, 8, 8}));
  const at::Tensor trained = testing::fetch(*source, {0, 1}).inputs;
  EXPECT_TRUE(at::equal(read_image(folder.path("cat/1.png"), shape).values, trained[0]));
  EXPECT_TRUE(at::equal(read_image(folder.path("dog/1.png"), shape).values, trained[1]));
  EXPECT_FALSE(at::equal(trained[0], trained[1]));
}

TEST(ImageFiles, SayWhyTheyCannotBeRead) {
  const Folder folder;
  const std::string whole = png(make_picture(9, 12, 3, 1));
  const auto why = [&](const std::string& content) {
    const ReadImage image = read_image(folder.write("a.png", content), {3, 8, 8});
    EXPECT_EQ(image.failure.empty(), image.values.defined());
    return image.failure;
  };
  EXPECT_THAT(why(whole), IsEmpty());
  EXPECT_THAT(why("hello"), HasSubstr("no image"));
  EXPECT_THAT(why("GIF89a"), HasSubstr("no PNG or JPEG that can be read, but GIF"));
  EXPECT_THAT(why(png(make_picture(1, 16385, 1, 1))),
              HasSubstr("but one with a side of 16385 pixels (16384 at most)"));
  EXPECT_THAT(why(png(make_picture(1, 16384, 1, 1))), IsEmpty());
  EXPECT_NE(why(whole.substr(0, whole.size() / 2)), "");
  EXPECT_EQ(read_image(folder.path("none.png"), {3, 8, 8}).failure,
            folder.path("none.png") + ": No such file or directory");
}

}  // namespace
}  // namespace accrue::data
