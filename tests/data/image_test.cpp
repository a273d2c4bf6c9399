#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <numeric>

#include "accrue/core/error.h"
#include "accrue/data/source.h"
#include "data/loader.h"
#include "folder.h"
#include "planted_images.h"
#include "support/skip.h"

namespace accrue::data {
namespace {

using ::testing::ElementsAre;
using testing::fetch;
using testing::Folder;
using ::testing::HasSubstr;
using testing::idx;
using testing::levels_of;
using testing::make_picture;
using testing::Picture;
using ::testing::Pointwise;
using testing::values;

std::unique_ptr<Source> open_images(const std::string& glob,
                                    std::vector<std::string> classes = {}) {
  return open_source({.globs = {glob}, .format = Format::images, .context = 0, .classes = classes},
                     "data.train");
}

/// fp32 keeps levels of 2 / 255 apart by far more than this.
::testing::AssertionResult shows(const at::Tensor& image, const std::vector<double>& levels,
                                 double tolerance = 1e-6) {
  if (image.scalar_type() != at::kFloat || image.numel() != std::ssize(levels))
    return ::testing::AssertionFailure() << "another type or size";
  const at::Tensor flat = image.contiguous().view({-1});
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const double level = flat.const_data_ptr<float>()[i];
    if (std::abs(level - levels[i]) > tolerance)
      return ::testing::AssertionFailure() << level << " at " << i << ", expected " << levels[i];
  }
  return ::testing::AssertionSuccess();
}

TEST(ImageFolders, AreKnownByTheirNamesHoweverThePathLeadsThere) {
  const Folder folder;
  const std::string image = testing::png(make_picture(2, 2, 1, 1));
  for (const char* name : {"cat/1.png", "cat/sub/1.png", "dog/1.png"}) folder.write(name, image);
  const auto source =
      open_source({.globs = {folder.path("cat/sub/../*.png"), folder.path("dog/./*.png")}}, "k");
  EXPECT_THAT(source->classes(), ElementsAre("cat", "dog"));
}

TEST(ImageFolders, ReadEveryFormatAndLeaveAlphaOut) {
  struct Row {
    const char* name;
    std::string (*encode)(const Picture&);
    std::int64_t channels;
  };
  for (const Row& row : {Row{"a.png", testing::png, 1}, Row{"a.png", testing::png, 2},
                         Row{"a.png", testing::png, 3}, Row{"a.PNG", testing::png, 4}}) {
    const Folder folder;
    const Picture cat = make_picture(5, 7, row.channels, 1),
                  dog = make_picture(5, 7, row.channels, 2);
    folder.write(std::string("cat/") + row.name, row.encode(cat));
    folder.write(std::string("dog/") + row.name, row.encode(dog));
    const auto source = testing::open(folder.path("*/*"), 0);
    const std::int64_t channels = row.channels < 3 ? 1 : 3;
    EXPECT_EQ(source->image_shape(), (ImageShape{channels, 5, 7})) << row.name;
    const auto micro = fetch(*source, {1, 0});
    EXPECT_EQ(micro.inputs.sizes(), (at::IntArrayRef{2, channels, 5, 7}));
    EXPECT_THAT(values(micro.targets), ElementsAre(1, 0));
    EXPECT_EQ(micro.tokens, 2);
    EXPECT_TRUE(shows(micro.inputs[0], levels_of(dog))) << row.name << row.channels;
    EXPECT_TRUE(shows(micro.inputs[1], levels_of(cat))) << row.name << row.channels;
    EXPECT_FALSE(shows(micro.inputs[0], levels_of(cat)));
  }
}

TEST(ImageFolders, ReadJpegClosely) {
  const Folder folder;
  const Picture gradient = testing::make_gradient(16, 24);
  folder.write("a/1.jpg", testing::jpeg(gradient));
  folder.write("b/1.jpeg", testing::jpeg(make_picture(16, 24, 3, 1)));
  const auto source = testing::open(folder.path("**"), 0);
  EXPECT_TRUE(shows(fetch(*source, {0}).inputs[0], levels_of(gradient), 0.1));
  EXPECT_FALSE(shows(fetch(*source, {1}).inputs[0], levels_of(gradient), 0.1));
}

TEST(ImageFolders, GoFromMinusOneToOne) {
  const Folder folder;
  folder.write("a/1.png", testing::png({1, 3, 1, {0, 255, 51}}));
  folder.write("b/1.png", testing::png({1, 3, 1, {0, 0, 0}}));
  EXPECT_TRUE(shows(fetch(*open_images(folder.path("*/*")), {0}).inputs[0], {-1, 1, -0.6}));
}

TEST(ImageFolders, NameClassesInSortedOrder) {
  const Folder folder;
  for (const char* name : {"x/zebra/1.png", "x/ant/1.png", "y/ant/2.png", "x/bee/1.png"})
    folder.write(name, testing::png(make_picture(2, 2, 1, 1)));
  const auto source = open_source(
      {.globs = {folder.path("x/*/*.png"), folder.path("y/*/*.png")}, .format = Format::images},
      "data.train");
  EXPECT_THAT(source->classes(), ElementsAre("ant", "bee", "zebra"));
  EXPECT_EQ(source->vocab(), 3);
  EXPECT_EQ(source->size(), 4);
  EXPECT_EQ(source->uniform_tokens(), 1);
  EXPECT_EQ(source->tokens(2), 1);
}

/// As in torchvision's ImageFolder; files next to them are left out.
TEST(ImageFolders, AreTheFirstBelowTheRoot) {
  const Folder folder;
  const std::string image = testing::png(make_picture(2, 2, 1, 1));
  for (const char* name : {"t/cat/day/1.png", "t/cat/2.png", "t/dog/1.png", "t/cover.png"})
    folder.write(name, image);
  folder.write("t/meta/names.txt", "cat\ndog\n");
  const auto source = open_images(folder.path("t/**/*.png"));
  EXPECT_THAT(source->classes(), ElementsAre("cat", "dog"));
  EXPECT_EQ(source->size(), 3);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < source->size(); ++i) {
    labels.push_back(values(fetch(*source, {i}).targets).front());
    EXPECT_EQ(source->class_of(i), labels.back());
  }
  EXPECT_THAT(labels, ::testing::UnorderedElementsAre(0, 0, 1));
  EXPECT_THAT(source->remarks(),
              ElementsAre(HasSubstr("of data.train, 1 image lies in a folder below"),
                          HasSubstr("t/cover.png"), HasSubstr("t/meta")));
}

TEST(ImageFolders, TakeTheClassesOfTheTrainingData) {
  const Folder folder;
  for (const char* name : {"val/bee/1.png", "val/zebra/1.png"})
    folder.write(name, testing::png(make_picture(2, 2, 1, 1)));
  const auto source = open_images(folder.path("val/*/*"), {"ant", "bee", "zebra"});
  EXPECT_THAT(values(fetch(*source, {0, 1}).targets), ElementsAre(1, 2));
  EXPECT_EQ(source->vocab(), 3);
}

TEST(ImageFolders, SpreadClassesEvenlySoThatAnyPartHasThem) {
  const Folder folder;
  const std::string image = testing::png(make_picture(2, 2, 1, 1));
  const std::map<std::string, int> counts{{"a", 60}, {"b", 30}, {"c", 10}};
  for (const auto& [name, count] : counts)
    for (int i = 0; i < count; ++i) folder.write(name + "/" + std::to_string(100 + i), image);
  const std::shared_ptr<const Source> source = open_images(folder.path("*/*"));
  std::vector<std::int64_t> all(100);
  std::iota(all.begin(), all.end(), 0);
  const auto labels = values(fetch(*source, all).targets);
  for (std::ptrdiff_t begin = 0; begin < 100; begin += 10) {
    const auto tenth = labels.begin() + begin;
    for (std::int64_t label = 0; label < 3; ++label) {
      const auto expected = std::vector<double>{6, 3, 1}[static_cast<std::size_t>(label)];
      EXPECT_NEAR(static_cast<double>(std::count(tenth, tenth + 10, label)), expected, 1.0);
    }
  }
  const auto held_out = slice(source, 90, 100);
  EXPECT_THAT(held_out->classes(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(held_out->image_shape(), source->image_shape());
}

TEST(ImageFolders, FingerprintCoversClassesAndContent) {
  const Folder folder;
  const auto print = [&](const std::string& root, const std::string& first, std::uint64_t seed) {
    folder.write(root + "/" + first + "/1.png", testing::png(make_picture(2, 2, 1, seed)));
    folder.write(root + "/dog/2.png", testing::png(make_picture(2, 2, 1, 2)));
    return open_images(folder.path(root) + "/*/*")->fingerprint();
  };
  const std::string original = print("a", "cat", 1);
  EXPECT_EQ(print("b", "cat", 1), original);
  EXPECT_NE(print("c", "cow", 1), original);
  EXPECT_NE(print("d", "cat", 3), original);
}

TEST(Images, AreGuessedBySuffix) {
  const Folder folder;
  folder.write("a/1.png", testing::png(make_picture(2, 2, 3, 1)));
  folder.write("b/1.JPG", testing::jpeg(make_picture(2, 2, 3, 1)));
  EXPECT_TRUE(testing::open(folder.path("*/*"), 4)->image_shape());
  EXPECT_FALSE(testing::open(folder.path("*/*"), 4, Format::text)->image_shape());
}

/// .bin files and files without a suffix are recognized by their contents.
TEST(Images, OfSetsAreKnownByTheirContent) {
  const Folder folder;
  std::string records, fine;
  for (std::uint8_t i = 0; i < 20; ++i) {
    records += testing::cifar_record({static_cast<std::uint8_t>(i % 10)}, i);
    fine += testing::cifar_record({i, static_cast<std::uint8_t>(5 * i)}, i);
  }
  folder.write("data_batch_1.bin", testing::cifar_record({3}, 1));
  folder.write("ten/a.bin", records);
  folder.write("hundred/train.bin", fine);
  folder.write("named/train.bin", testing::cifar_record({1, 2}, 1));
  folder.write("named/fine_label_names.txt", "apple\n");
  folder.write("x-images-idx3-ubyte", idx({0x803, 2, 2, 3}, "abcdefghijkl"));
  folder.write("x-labels-idx1-ubyte", idx({0x801, 2}, std::string("\0\1", 2)));
  for (const char* file : {"data_batch_1.bin", "ten/a.bin", "hundred/train.bin", "named/train.bin",
                           "x-images-idx3-ubyte", "x-*-ubyte"})
    EXPECT_TRUE(testing::open(folder.path(file), 4)->image_shape()) << file;
  EXPECT_FALSE(testing::open(folder.path("ten/a.bin"), 4, Format::tokens)->image_shape())
      << "where that is stated";
}

TEST(Images, OfSetsAreNoTokensOrText) {
  const Folder folder;
  const std::string few = testing::cifar_record({1, 2}, 1), whole = few + few;
  std::string bad = testing::cifar_record({19, 99}, 1);
  for (int i = 0; i < 19; ++i) bad += testing::cifar_record({20, 1}, 2);
  folder.write("few.bin", whole);
  folder.write("bad.bin", bad);
  folder.write("longer.bin", few + few + "ab");
  folder.write("ids.bin", testing::packed<std::uint16_t>(testing::counting_ids(3074, 50257)));
  for (const char* file : {"few.bin", "bad.bin", "longer.bin", "ids.bin"})
    EXPECT_FALSE(testing::open(folder.path(file), 4)->image_shape()) << file;
  folder.write("cut-images-idx3-ubyte", idx({0x803, 2, 2, 3}, "abc"));
  EXPECT_THROW(testing::open(folder.path("cut-images-idx3-ubyte"), 4), Error) << "no text either";
}

TEST(Images, ArePrefetched) {
  const Folder folder;
  for (std::uint64_t i = 0; i < 20; ++i)
    folder.write((i % 2 == 0 ? "a/" : "b/") + std::to_string(10 + i),
                 testing::png(make_picture(3, 3, 3, i)));
  const std::shared_ptr<const Source> source = open_images(folder.path("*/*"));
  Loader loader(source, batch::Sampler(20, batch::Order::shuffle, 1));
  loader.prefetch({{0, 8}, {8, 16}});
  for (const batch::Range& range : {batch::Range{0, 8}, batch::Range{8, 16}}) {
    const auto micro = loader.next();
    EXPECT_TRUE(at::equal(micro.inputs, loader.fetch(range).inputs));
    EXPECT_EQ(micro.sample_ids.front(), range.begin);
    EXPECT_TRUE(micro.spans.empty());
  }
}

/// Plane by plane, as in the files.
std::vector<double> levels_of_bytes(const std::string& bytes) {
  std::vector<double> levels;
  for (const char c : bytes) levels.push_back(2.0 * static_cast<unsigned char>(c) / 255 - 1);
  return levels;
}

TEST(Cifar, ReadsBothVersions) {
  const Folder folder;
  const std::string a = testing::cifar_record({3}, 1), b = testing::cifar_record({9}, 2),
                    c = testing::cifar_record({0}, 3);
  folder.write("ten/data_batch_1.bin", a + b);
  folder.write("ten/data_batch_2.bin", c);
  const auto ten = open_images(folder.path("ten/*.bin"));
  EXPECT_EQ(ten->vocab(), 10);
  EXPECT_EQ(ten->size(), 3);
  EXPECT_EQ(ten->image_shape(), (ImageShape{3, 32, 32}));
  const auto micro = fetch(*ten, {2, 1, 0});
  EXPECT_THAT(values(micro.targets), ElementsAre(0, 9, 3));
  EXPECT_TRUE(shows(micro.inputs[0], levels_of_bytes(c.substr(1))));
  EXPECT_TRUE(shows(micro.inputs[2], levels_of_bytes(a.substr(1))));
  EXPECT_FALSE(shows(micro.inputs[2], levels_of_bytes(b.substr(1))));

  const std::string fine = testing::cifar_record({19, 99}, 4);
  const auto hundred = open_images(folder.write("hundred/train.bin", fine));
  EXPECT_EQ(hundred->vocab(), 100);
  EXPECT_EQ(hundred->classes().back(), "99");
  EXPECT_THAT(values(fetch(*hundred, {0}).targets), ElementsAre(99));
  EXPECT_TRUE(shows(fetch(*hundred, {0}).inputs[0], levels_of_bytes(fine.substr(2))));
}

TEST(Cifar, IsKnownByItsSuffixInEitherCase) {
  const Folder folder;
  const std::string file = folder.write("data_batch_1.BIN", testing::cifar_record({3}, 1));
  EXPECT_EQ(open_images(file)->vocab(), 10);
  EXPECT_TRUE(testing::open(file, 4)->image_shape()) << "where nothing states the format";
}

TEST(Cifar, NamesItsClassesByTheFileBesideIt) {
  const Folder folder;
  folder.write("data_batch_1.bin", testing::cifar_record({3}, 1));
  folder.write("batches.meta.txt",
               "airplane\r\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  EXPECT_EQ(open_images(folder.path("*.bin"))->classes().at(3), "cat");
  EXPECT_EQ(open_images(folder.path("*.bin"))->classes().size(), 10U);
  folder.write("batches.meta.txt", "airplane\nautomobile\n");
  EXPECT_EQ(open_images(folder.path("*.bin"))->classes().at(3), "3") << "not of these classes";
}

TEST(Images, OfEveryKindAreBroughtToTheStatedSize) {
  const Folder folder;
  folder.write("a.bin", testing::cifar_record({3}, 1));
  folder.write("x-images-idx3-ubyte", idx({0x803, 1, 2, 3}, "abcdef"));
  folder.write("x-labels-idx1-ubyte", idx({0x801, 1}, std::string(1, '\0')));
  for (const char* file : {"a.bin", "x-images-idx3-ubyte"}) {
    const auto source =
        open_source({.globs = {folder.path(file)}, .format = Format::images, .image = {3, 16, 20}},
                    "data.train");
    EXPECT_EQ(fetch(*source, {0}).inputs.sizes(), (at::IntArrayRef{1, 3, 16, 20})) << file;
  }
}

TEST(Idx, PairsImagesWithTheirLabels) {
  const Folder folder;
  const std::string first = "\x01\x02\x03\x04\x05\x06\x10\x20\x30\x40\x50\x60", second = "abcdef";
  folder.write("a-images-idx3-ubyte", idx({0x803, 2, 2, 3}, first));
  folder.write("a-labels-idx1-ubyte", idx({0x801, 2}, "\x07\x02"));
  folder.write("b-images.idx3-ubyte", idx({0x803, 1, 2, 3}, second));
  folder.write("b-labels.idx1-ubyte", idx({0x801, 1}, std::string(1, '\0')));
  for (const char* glob : {"*", "*images*"}) {
    const auto source = open_images(folder.path(glob));
    EXPECT_EQ(source->size(), 3);
    EXPECT_THAT(source->classes(), ElementsAre("0", "2", "7"));
    EXPECT_EQ(source->image_shape(), (ImageShape{1, 2, 3}));
    const auto micro = fetch(*source, {0, 1, 2});
    EXPECT_THAT(values(micro.targets), ElementsAre(2, 1, 0));
    EXPECT_TRUE(shows(micro.inputs[1], levels_of_bytes(first.substr(6))));
    EXPECT_TRUE(shows(micro.inputs[2], levels_of_bytes(second)));
  }
  const std::vector<std::string> known{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
  EXPECT_EQ(open_images(folder.path("*"), known)->vocab(), 10);
  EXPECT_THAT(values(fetch(*open_images(folder.path("*"), known), {0, 1, 2}).targets),
              ElementsAre(7, 2, 0));
}

/// The classes of images with these labels.
struct LabelsRow {
  const char* name;
  std::string labels;
  std::int64_t vocab;  ///< model.vocab; 0: not stated
  std::vector<std::string> classes;
  std::vector<std::int64_t> targets;
  bool has_remark = false;
};

class IdxLabels : public ::testing::TestWithParam<LabelsRow> {};

TEST_P(IdxLabels, AreTheClasses) {
  const LabelsRow& row = GetParam();
  const Folder folder;
  const auto count = static_cast<std::uint32_t>(row.labels.size());
  folder.write("a-images-idx3-ubyte", idx({0x803, count, 1, 1}, std::string(count, 'x')));
  folder.write("a-labels-idx1-ubyte", idx({0x801, count}, row.labels));
  const auto source = open_source(
      {.globs = {folder.path("*")}, .format = Format::images, .vocab = row.vocab}, "data.train");
  EXPECT_EQ(source->classes(), row.classes);
  EXPECT_EQ(source->vocab(), std::ssize(row.classes));
  std::vector<std::int64_t> all(row.labels.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(values(fetch(*source, all).targets), row.targets);
  for (const std::int64_t i : all)
    EXPECT_EQ(source->class_of(i), row.targets[static_cast<std::size_t>(i)]);
  EXPECT_EQ(!source->remarks().empty(), row.has_remark);
  for (const std::string& remark : source->remarks())
    EXPECT_THAT(remark, HasSubstr("labels that occur, the largest of which is "));
}

INSTANTIATE_TEST_SUITE_P(
    Table, IdxLabels,
    ::testing::Values(
        LabelsRow{"from_zero", {"\0\1\2\1", 4}, 0, {"0", "1", "2"}, {0, 1, 2, 1}},
        LabelsRow{"one_of_200", {"\0\xc8\1", 3}, 0, {"0", "1", "200"}, {0, 2, 1}, true},
        LabelsRow{"from_one", {"\1\2\3", 3}, 0, {"1", "2", "3"}, {0, 1, 2}, true},
        LabelsRow{"with_a_gap", {"\0\2", 2}, 0, {"0", "2"}, {0, 1}, true},
        LabelsRow{"the_largest", {"\xff\0", 2}, 0, {"0", "255"}, {1, 0}, true},
        LabelsRow{"of_more_classes", {"\0\2", 2}, 4, {"0", "1", "2", "3"}, {0, 2}},
        LabelsRow{"of_as_many_classes", {"\0\xc8", 2}, 2, {"0", "200"}, {0, 1}, true}),
    [](const auto& row) { return std::string(row.param.name); });

/// The handwritten digits, as in scikit-learn.
struct Digits {
  std::filesystem::path root;
  std::vector<std::string> pixels;
  std::vector<std::int64_t> labels;

  Digits() {
    const char* folder = std::getenv("ACCRUE_TEST_DIGITS");
    if (folder == nullptr) return;
    root = folder;
    std::ifstream file(root / "digits.bin", std::ios::binary);
    std::string record(65, '\0');
    while (file.read(record.data(), 65)) {
      labels.push_back(record[0]);
      pixels.push_back(record.substr(1));
    }
  }
};

TEST(Digits, AreTheSameFromFoldersAndFromIdx) {
  const Digits digits;
  if (digits.root.empty())
    return accrue::testing::missing_in_build("ACCRUE_TEST_DIGITS is not set, as ctest does");
  ASSERT_EQ(digits.labels.size(), 1797U);

  const auto from_idx = open_images((digits.root / "idx/*").string());
  ASSERT_EQ(from_idx->size(), 1797);
  EXPECT_EQ(from_idx->vocab(), 10);
  for (std::int64_t i = 0; i < 1797; ++i) {
    const auto micro = fetch(*from_idx, {i});
    EXPECT_EQ(values(micro.targets).front(), digits.labels[static_cast<std::size_t>(i)]);
    ASSERT_TRUE(shows(micro.inputs, levels_of_bytes(digits.pixels[static_cast<std::size_t>(i)])));
  }

  const auto from_folders = open_images((digits.root / "folders/*/*.png").string());
  ASSERT_EQ(from_folders->size(), 1797);
  EXPECT_EQ(from_folders->image_shape(), (ImageShape{1, 8, 8}));
  // In another order: within a class the images are in the order of their names.
  std::map<std::int64_t, std::vector<std::size_t>> by_class;
  for (std::size_t i = 0; i < digits.labels.size(); ++i) by_class[digits.labels[i]].push_back(i);
  std::map<std::int64_t, std::size_t> taken;
  for (std::int64_t i = 0; i < 1797; ++i) {
    const auto micro = fetch(*from_folders, {i});
    const std::int64_t label = values(micro.targets).front();
    const std::size_t expected = by_class[label].at(taken[label]++);
    ASSERT_TRUE(shows(micro.inputs, levels_of_bytes(digits.pixels[expected])));
  }
}

}  // namespace
}  // namespace accrue::data
