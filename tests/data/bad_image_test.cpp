#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accrue/core/error.h"
#include "accrue/data/source.h"
#include "data/fetch.h"
#include "folder.h"
#include "planted_images.h"
#include "refusal.h"

namespace accrue::data {
namespace {

using ::testing::AllOf;
using testing::fetch;
using testing::Folder;
using ::testing::HasSubstr;
using testing::idx;
using testing::make_picture;
using testing::png;
using testing::refusal;

struct Known {
  std::vector<std::string> classes;
  std::int64_t vocab = 0;
};

std::unique_ptr<Source> open_knowing(const std::string& glob, const Known& known = {}) {
  return open_source(
      {.globs = {glob}, .format = Format::images, .vocab = known.vocab, .classes = known.classes},
      "data.train");
}

std::string opening_refused(const std::string& glob, const Known& known = {}) {
  const std::string message = refusal(Error::Kind::usage, [&] { open_knowing(glob, known); });
  EXPECT_THAT(message, HasSubstr("data.train"));
  return message;
}

class BadImages : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.write("set/cat/1.png", png(make_picture(4, 4, 3, 1)));
    folder_.write("set/dog/1.png", png(make_picture(4, 4, 3, 2)));
  }
  std::string all() const { return folder_.path("set/*/*"); }

  Folder folder_;
};

TEST_F(BadImages, ControlIsFine) { EXPECT_EQ(open_knowing(all())->size(), 2); }

TEST_F(BadImages, AreNoImages) {
  for (const std::string& content : {std::string("hello"), std::string(),
                                     std::string("\x89PNG\r\n\x1a\n"), std::string(10'000, 'x')}) {
    const auto file = folder_.write("set/dog/2.png", content);
    EXPECT_THAT(opening_refused(all()), AllOf(HasSubstr(file), HasSubstr("none that can be read")));
  }
}

TEST_F(BadImages, OfOtherFormatsAreRefusedByTheirNames) {
  const std::pair<const char*, const char*> others[] = {
      {"BM\x46", "BMP"}, {"P6\n4 4\n", "PNM"}, {"GIF89a", "GIF"}, {"II*", "TIFF"}};
  for (const auto& [content, name] : others) {
    const auto file = folder_.write("set/dog/2.bmp", content);
    EXPECT_THAT(opening_refused(all()),
                AllOf(HasSubstr(file), HasSubstr(name), HasSubstr("converting it to PNG")));
  }
}

TEST_F(BadImages, DoNotDecode) {
  const testing::Picture picture = make_picture(4, 4, 3, 3);
  const std::string whole = png(picture), photo = testing::jpeg(picture);
  const std::vector<std::string> broken{whole.substr(0, 40), whole.substr(0, whole.size() * 3 / 4),
                                        photo.substr(0, photo.size() - 9),
                                        photo.substr(0, photo.size() - 2)};
  for (const std::string& content : broken) {
    const auto file = folder_.write("set/dog/0.png", content);
    const auto source = open_knowing(all());
    ASSERT_EQ(source->size(), 3);
    const batch::MicroBatch micro =
        fetch_as(*source, std::vector<std::int64_t>{2, 1, 0, 1, 0}, {30, 40, 50, 60, 70});
    ASSERT_EQ(micro.unreadable.size(), 2);
    const std::int64_t damaged = micro.unreadable[0].sample_id;
    EXPECT_THAT(micro.unreadable[0].reason, AllOf(HasSubstr(file), HasSubstr("does not decode")));
    EXPECT_EQ(micro.inputs.size(0), 3);
    EXPECT_EQ(micro.targets.size(0), 3);
    EXPECT_EQ(micro.tokens, 3);
    EXPECT_THAT(micro.sample_ids, ::testing::SizeIs(3));
    EXPECT_THAT(micro.sample_ids, ::testing::Not(::testing::Contains(damaged)));
  }
}

TEST_F(BadImages, OthersStandInWhereTheShapeIsWanted) {
  folder_.write("set/cat/0.png", png(make_picture(4, 4, 3, 3)).substr(0, 50));
  const auto source = open_knowing(all());
  const std::vector<std::int64_t> both{0, 1, 2};
  const batch::MicroBatch micro = fetch_full(*source, both, {7, 8, 9});
  EXPECT_EQ(micro.inputs.size(0), 3);
  EXPECT_THAT(micro.sample_ids, ::testing::ElementsAre(7, 8, 9));
  EXPECT_EQ(fetch_one(*source).inputs.size(0), 1);
  folder_.write("set/cat/1.png", png(make_picture(4, 4, 3, 3)).substr(0, 50));
  folder_.write("set/dog/1.png", png(make_picture(4, 4, 3, 3)).substr(0, 50));
  const auto none = open_knowing(all());
  EXPECT_THAT(refusal(Error::Kind::usage,
                      [&] {
                        fetch_full(*none, both, {7, 8, 9});
                      }),
              HasSubstr("does not decode"));
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { fetch_one(*none); }), HasSubstr("none among 3"));
}

/// The purpose of PNG's checksums.
TEST_F(BadImages, NoFlippedBitOfAPngGivesOtherPixels) {
  const std::string good = png(make_picture(4, 4, 3, 3));
  folder_.write("set/dog/0.png", good);
  const auto whole = open_knowing(all());
  const std::vector<std::int64_t> everything{0, 1, 2};
  const at::Tensor expected = whole->fetch(everything).inputs;
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string damaged = good;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    folder_.write("set/dog/0.png", damaged);
    try {
      const batch::MicroBatch micro = open_knowing(all())->fetch(everything);
      EXPECT_TRUE(micro.inputs.size(0) == 2 || at::equal(micro.inputs, expected)) << bit;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("0.png"));
    }
  }
}

class ExcludedFiles : public BadImages {
 protected:
  std::unique_ptr<Source> open_without(const std::string& glob,
                                       const std::vector<std::string>& exclude) const {
    return open_source({.globs = {glob}, .exclude = exclude, .context = 2}, "data.train");
  }
};

/// So that a run continues with the samples it would have had.
TEST_F(ExcludedFiles, KeepTheirPlacesAmongImages) {
  folder_.write("set/cat/2.png", png(make_picture(4, 4, 3, 4)));
  folder_.write("set/dog/2.png", png(make_picture(4, 4, 3, 5)));
  const auto whole = open_without(all(), {});
  const auto some = open_without(all(), {folder_.path("set/./cat/2*")});
  EXPECT_EQ(some->size(), 4);
  EXPECT_EQ(some->fingerprint(), whole->fingerprint());
  const std::vector<std::int64_t> everything{0, 1, 2, 3};
  const batch::MicroBatch all_rows = whole->fetch(everything), rows = some->fetch(everything);
  EXPECT_THAT(rows.unreadable, ::testing::IsEmpty()) << "on purpose";
  ASSERT_EQ(rows.sample_ids.size(), 3);
  for (std::size_t row = 0; row < rows.sample_ids.size(); ++row)
    EXPECT_TRUE(at::equal(rows.inputs[static_cast<std::int64_t>(row)],
                          all_rows.inputs[rows.sample_ids[row]]));
  EXPECT_EQ(rows.targets.eq(0).sum().item<std::int64_t>(), 1);
}

TEST_F(ExcludedFiles, NeedNotBeImagesOfThatShape) {
  folder_.write("set/cat/0.png", "no image");
  folder_.write("set/dog/2.png", png(make_picture(9, 9, 3, 5)));
  EXPECT_THROW(open_without(all(), {folder_.path("set/dog/2.png")}), Error) << "no image";
  EXPECT_THAT(open_without(all(), {folder_.path("set/cat/0.png")})->remarks(),
              ::testing::SizeIs(1));
  const auto source =
      open_without(all(), {folder_.path("set/cat/0.png"), folder_.path("set/dog/2.png")});
  EXPECT_EQ(source->image_shape(), (ImageShape{3, 4, 4}));
  EXPECT_THAT(source->remarks(), ::testing::IsEmpty());
}

TEST_F(ExcludedFiles, OfAllElseAreAsIfTheyWereNotThere) {
  folder_.write("a.txt", "abcd");
  folder_.write("b.txt", "0123");
  folder_.write("c.jsonl", "{\"text\": \"other\"}\n");
  const auto source = open_without(folder_.path("[ab].txt"), {folder_.path("b*")});
  EXPECT_EQ(source->fingerprint(), open_without(folder_.path("a.txt"), {})->fingerprint());
  EXPECT_NO_THROW(open_without(folder_.path("*.*"), {folder_.path("*.jsonl")}));
}

TEST_F(ExcludedFiles, MatchAFileAndLeaveOne) {
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { open_without(all(), {folder_.path("no/*")}); }),
              AllOf(HasSubstr("data.exclude"), HasSubstr("no/*")));
  EXPECT_THAT(refusal(Error::Kind::usage, [&] { open_without(all(), {all()}); }),
              HasSubstr("all 2 are excluded"));
}

TEST_F(BadImages, NeverCrashWhateverTheBytes) {
  const testing::Picture picture = make_picture(4, 4, 3, 3);
  std::vector<std::string> damaged;
  for (const std::string& good : {png(picture), testing::jpeg(picture)})
    for (std::size_t i = 0; i < good.size(); ++i) {
      damaged.push_back(good);
      damaged.back()[i] = static_cast<char>(~good[i]);
      damaged.push_back(good.substr(0, i));
    }
  for (const std::string& corrupt : damaged) {
    folder_.write("set/dog/0.png", corrupt);
    try {
      const auto source = open_knowing(all());
      fetch(*source, {0, 1, 2});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::usage);
      EXPECT_THAT(error.what(), HasSubstr("0.png"));
    }
  }
}

TEST_F(BadImages, ThatDifferInShapeAreBroughtToOne) {
  folder_.write("set/dog/2.png", png(make_picture(4, 5, 1, 1)));
  const auto source = open_knowing(all());
  EXPECT_EQ(source->image_shape(), (ImageShape{3, 4, 4}));
  EXPECT_EQ(fetch(*source, {0, 1, 2}).inputs.sizes(), (at::IntArrayRef{3, 3, 4, 4}));
  ASSERT_THAT(source->remarks(), ::testing::SizeIs(1));
  EXPECT_THAT(source->remarks().front(),
              AllOf(HasSubstr("of data.train, 1 image of other sizes is scaled to cover 4 x 4"),
                    HasSubstr("1 image in grey taken as colour")));
  folder_.write("set/dog/2.png", png(make_picture(4, 4, 3, 1)));
  EXPECT_THAT(open_knowing(all())->remarks(), ::testing::IsEmpty());
}

/// It may be a class whose images are missing, or not a class: it is named.
TEST_F(BadImages, ClassWithoutAnImage) {
  const std::string empty = folder_.path("set/empty");
  std::filesystem::create_directories(empty);
  const auto remarks = [&](const std::string& glob) { return open_knowing(glob)->remarks(); };
  EXPECT_THAT(remarks(all()), ::testing::ElementsAre(HasSubstr("is no class: " + empty)));
  folder_.write("set/empty/notes.txt", "soon");
  EXPECT_THAT(remarks(folder_.path("set/*/*.png")),
              ::testing::ElementsAre(HasSubstr("is no class: " + empty)));
  // Images that the globs leave out are no error, and hidden folders no classes.
  folder_.write("set/empty/1.png", "not asked for");
  std::filesystem::create_directories(folder_.path("set/.cache"));
  EXPECT_THAT(remarks(folder_.path("set/[cd]*/*.png")), ::testing::IsEmpty());
}

TEST_F(BadImages, OfOneClassOrAnUnknownOne) {
  EXPECT_THAT(
      opening_refused(folder_.path("set/cat/*")),
      AllOf(HasSubstr("expected images in at least two folders, one for each class, received "
                      "all 1 in " +
                      folder_.path("set/cat") + ", of class 'cat'"),
            HasSubstr("try accrue init " + folder_.path("set") + ", or train = [\"" +
                      folder_.path("set/*/*.png") + "\"] in [data]")));
  EXPECT_NO_THROW(open_knowing(folder_.path("set/cat/*"), {.classes = {"cat", "dog"}}));
  EXPECT_THAT(opening_refused(all(), {.classes = {"cat", "cow"}}),
              AllOf(HasSubstr("class 'dog'"), HasSubstr("dog/1.png")));
}

TEST_F(BadImages, InOneFolderWithoutClasses) {
  for (const char* name : {"flat/1.png", "flat/2.png"})
    folder_.write(name, png(make_picture(4, 4, 3, 1)));
  const std::string flat = folder_.path("flat");
  for (const char* glob : {"flat/*", "flat/**", "flat/**/*.png"})
    EXPECT_THAT(
        opening_refused(folder_.path(glob)),
        AllOf(HasSubstr("at least two folders, one for each class, received all 2 in " + flat),
              HasSubstr("try moving each image to " + flat + "/CLASS/NAME.png, and accrue init " +
                        flat + ", or train = [\"" + flat + "/*/*.png\"] in [data]")));
}

TEST_F(BadImages, OfTwoKinds) {
  folder_.write("set/dog/a.bin", testing::cifar_record({1}, 1));
  EXPECT_THAT(opening_refused(all()),
              AllOf(HasSubstr("(an image)"), HasSubstr("a.bin (CIFAR records)")));
  std::filesystem::remove(folder_.path("set/dog/a.bin"));
  folder_.write("set/dog/a.txt", "text beside images");
  const auto mixed = [&] { open_source({.globs = {all()}}, "data.train"); };
  EXPECT_THAT(refusal(Error::Kind::usage, mixed), HasSubstr("files of one format"));
}

TEST_F(BadImages, PackedOrCompressed) {
  const auto packed = [&] { open_source({.globs = {all()}, .packing = true}, "data.train"); };
  EXPECT_THAT(refusal(Error::Kind::usage, packed), HasSubstr("data.packing"));
  const auto file = folder_.write("train-images-idx3-ubyte.gz", "\x1f\x8b\x08\x00");
  EXPECT_THAT(opening_refused(file), AllOf(HasSubstr(file), HasSubstr("gzip")));
}

TEST(BadCifar, IsTruncatedOrOutOfRange) {
  const Folder folder;
  const std::string record = testing::cifar_record({3}, 1);
  for (const std::string& content : {record.substr(1), record + "xyz", std::string("x")}) {
    const auto file = folder.write("a.bin", content);
    EXPECT_THAT(opening_refused(file), AllOf(HasSubstr(file), HasSubstr("truncated")));
  }
  const auto empty = folder.write("a.bin", "");
  EXPECT_THAT(opening_refused(empty), HasSubstr(empty));
  const auto file = folder.write("a.bin", record + testing::cifar_record({10}, 1));
  EXPECT_THAT(opening_refused(file), AllOf(HasSubstr(file), HasSubstr("record 1")));
  const auto fine = folder.write("a.bin", testing::cifar_record({1, 100}, 1));
  EXPECT_THAT(opening_refused(fine), AllOf(HasSubstr("CIFAR-100"), HasSubstr("record 0")));
}

TEST(BadCifar, OfTwoVersions) {
  const Folder folder;
  folder.write("a.bin", testing::cifar_record({1}, 1));
  folder.write("b.bin", testing::cifar_record({1, 1}, 1));
  EXPECT_THAT(opening_refused(folder.path("*.bin")),
              AllOf(HasSubstr("a.bin (CIFAR-10)"), HasSubstr("b.bin (CIFAR-100)")));
  EXPECT_THAT(opening_refused(folder.path("b.bin"), {.classes = std::vector<std::string>(10)}),
              HasSubstr("10 classes of the training data"));
}

struct BadIdx {
  const char* name;
  std::string images, labels;
  std::string expected_file;
  std::string expected_message;
};

class BadIdxFiles : public ::testing::TestWithParam<BadIdx> {};

TEST_P(BadIdxFiles, AreRefusedByName) {
  const Folder folder;
  folder.write("a-images-idx3-ubyte", GetParam().images);
  folder.write("a-labels-idx1-ubyte", GetParam().labels);
  EXPECT_THAT(opening_refused(folder.path("*"), {.vocab = 10}),
              AllOf(HasSubstr(folder.path(GetParam().expected_file)),
                    HasSubstr(GetParam().expected_message)));
}

const std::string good_images = idx({0x803, 2, 1, 2}, "abcd");
const std::string good_labels = idx({0x801, 2}, "\x01\x09");
const char* const images_name = "a-images-idx3-ubyte";
const char* const labels_name = "a-labels-idx1-ubyte";

INSTANTIATE_TEST_SUITE_P(
    Table, BadIdxFiles,
    ::testing::Values(
        BadIdx{"magic", idx({0x804, 2, 1, 2}, "abcd"), good_labels, images_name, "magic 2052"},
        BadIdx{"floats", idx({0xd03, 2, 1, 2}, "abcd"), good_labels, images_name, "magic 3331"},
        BadIdx{"truncated", good_images.substr(0, 19), good_labels, images_name, "received"},
        BadIdx{"longer", good_images + "x", good_labels, images_name, "21"},
        BadIdx{"header_cut", good_images.substr(0, 10), good_labels, images_name, "10 bytes"},
        BadIdx{"empty", "", good_labels, images_name, "0 bytes"},
        BadIdx{"corrupt_sizes", idx({0x803, 0xffffffff, 0xffffffff, 0xffffffff}, "abcd"),
               good_labels, images_name, "20"},
        BadIdx{"no_pixels", idx({0x803, 2, 0, 2}, ""), good_labels, images_name, "1 x 0 x 2"},
        BadIdx{"no_images", idx({0x803, 0, 1, 2}, ""), idx({0x801, 0}, ""), images_name, "none in"},
        BadIdx{"label_magic", good_images, idx({0x803, 2}, "\x01\x02"), labels_name, "magic 2051"},
        BadIdx{"labels_cut", good_images, good_labels.substr(0, 9), labels_name, "9"},
        BadIdx{"fewer_labels", good_images, idx({0x801, 1}, "\x01"), labels_name, "2 labels"},
        BadIdx{"label_out_of_range", good_images, idx({0x801, 2}, "\x01\x0a"), labels_name,
               "10 of image 1"}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(BadIdxFiles, ControlIsFine) {
  const Folder folder;
  folder.write(images_name, good_images);
  folder.write(labels_name, good_labels);
  EXPECT_EQ(open_knowing(folder.path("*"), {.vocab = 10})->size(), 2);
}

TEST(BadIdxFiles, HaveLabelsOfNoClass) {
  const Folder folder;
  folder.write("a-images-idx3-ubyte", good_images);
  folder.write("a-labels-idx1-ubyte", idx({0x801, 2}, std::string("\0\1", 2)));
  folder.write("b-images-idx3-ubyte", good_images);
  const std::string labels = folder.write("b-labels-idx1-ubyte", idx({0x801, 2}, "\x01\xc8"));
  EXPECT_THAT(opening_refused(folder.path("*"), {.classes = {"0", "1"}}),
              AllOf(HasSubstr("labels of the training data"), HasSubstr(labels),
                    HasSubstr("200 of image 1")));
  EXPECT_THAT(opening_refused(folder.path("*"), {.vocab = 10}),
              AllOf(HasSubstr("labels below 10"), HasSubstr(labels), HasSubstr("200 of image 1")));
}

TEST(BadIdxFiles, LackTheirPartner) {
  const Folder folder;
  const auto alone = folder.write("a-images-idx3-ubyte", good_images);
  EXPECT_THAT(opening_refused(alone),
              AllOf(HasSubstr("the labels of " + alone), HasSubstr("a-labels-idx1-ubyte")));
  const auto only_labels = folder.write("b-labels-idx1-ubyte", good_labels);
  EXPECT_THAT(opening_refused(only_labels), HasSubstr("only labels"));
  const auto unnamed = folder.write("digits.idx", good_images);
  EXPECT_THAT(opening_refused(unnamed), HasSubstr("named like train-images-idx3-ubyte"));
}

TEST(BadIdxFiles, DifferInShape) {
  const Folder folder;
  folder.write("a-images-idx3-ubyte", good_images);
  folder.write("a-labels-idx1-ubyte", good_labels);
  folder.write("b-images-idx3-ubyte", idx({0x803, 2, 2, 1}, "abcd"));
  folder.write("b-labels-idx1-ubyte", good_labels);
  EXPECT_THAT(opening_refused(folder.path("*")),
              AllOf(HasSubstr("(1 x 1 x 2)"), HasSubstr("(1 x 2 x 1)")));
}

}  // namespace
}  // namespace accrue::data
