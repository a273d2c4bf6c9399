#include "data/images/sets/class_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "data/folder.h"
#include "data/refusal.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::Folder;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::refusal;
using ::testing::SizeIs;

using Names = std::vector<std::string>;

/// Files of a folder, and the classes that patterns give them.
class ImageTree {
 public:
  explicit ImageTree(const Names& files) {
    for (const std::string& file : files) folder_.write(file, file);
  }

  const Folder& folder() const { return folder_; }

  ClassFolders open(const Names& globs, const Names& known = {}) const {
    const Names absolute = with_root(globs);
    return {absolute, find_files(absolute, "data.train"), known, "data.train"};
  }

  /// The matched files with their classes; empty if a file lies in no class's folder.
  std::map<std::string, std::string> classes(const Names& globs, const Names& known = {}) const {
    const Names absolute = with_root(globs);
    const FoundFiles found = find_files(absolute, "data.train");
    const ClassFolders folders(absolute, found, known, "data.train");
    std::map<std::string, std::string> classes;
    for (const fs::path& file : found.files)
      classes[file.lexically_relative(folder_.root()).string()] = folders.class_of(file);
    return classes;
  }

 private:
  Names with_root(const Names& globs) const {
    Names absolute;
    for (const std::string& glob : globs) absolute.push_back(folder_.path(glob));
    return absolute;
  }

  Folder folder_;
};

struct PatternRow {
  const char* name;
  Names globs;
  std::map<std::string, std::string> classes;  ///< of all existing files that match
  Names others = {};                           ///< files that no pattern matches
};

class ClassesByPatterns : public ::testing::TestWithParam<PatternRow> {};

TEST_P(ClassesByPatterns, AreTheFoldersThatTheyName) {
  const PatternRow& row = GetParam();
  Names files = row.others;
  for (const auto& [file, name] : row.classes) files.push_back(file);
  EXPECT_EQ(ImageTree(files).classes(row.globs), row.classes);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ClassesByPatterns,
    ::testing::Values(
        PatternRow{"one_folder", {"t/*/*.png"}, {{"t/cat/1.png", "cat"}, {"t/dog/1.png", "dog"}}},
        PatternRow{"a_folder_of_images_in_each",
                   {"t/*/images/*.png"},
                   {{"t/cat/images/1.png", "cat"}, {"t/dog/images/1.png", "dog"}},
                   {"t/cat/boxes/1.png"}},
        PatternRow{"any_depth_as_image_folder_has_it",
                   {"t/**/*.png"},
                   {{"t/cat/day/1.png", "cat"},
                    {"t/cat/night/far/1.png", "cat"},
                    {"t/cat/1.png", "cat"},
                    {"t/dog/1.png", "dog"}}},
        PatternRow{"any_depth_below_a_star",
                   {"t/*/**/*.png"},
                   {{"t/cat/day/1.png", "cat"}, {"t/dog/1.png", "dog"}},
                   {"t/cover.png"}},
        PatternRow{
            "two_stars", {"t/*/*/*.png"}, {{"t/cat/day/1.png", "cat"}, {"t/dog/day/1.png", "dog"}}},
        PatternRow{"an_image_beside_the_folders",
                   {"t/**/*.png"},
                   {{"t/cat/1.png", "cat"}, {"t/dog/1.png", "dog"}, {"t/cover.png", ""}}},
        PatternRow{"several_suffixes",
                   {"t/**/*.png", "t/**/*.jpg"},
                   {{"t/cat/day/1.png", "cat"}, {"t/dog/1.jpg", "dog"}}},
        PatternRow{"named_folders",
                   {"t/cat/*.png", "t/dog/*.png"},
                   {{"t/cat/1.png", "cat"}, {"t/dog/1.png", "dog"}},
                   {"t/cow/1.png"}},
        PatternRow{"named_folders_of_several_sets",
                   {"a/cat/*", "a/dog/*", "b/cat/*"},
                   {{"a/cat/1.png", "cat"}, {"a/dog/1.png", "dog"}, {"b/cat/1.png", "cat"}}},
        PatternRow{"named_folders_that_end_alike",
                   {"t/cat/images/*", "t/dog/images/*"},
                   {{"t/cat/images/1.png", "cat"}, {"t/dog/images/1.png", "dog"}}},
        PatternRow{"named_folders_anywhere",
                   {"**/cat/*.png", "**/dog/*.png"},
                   {{"a/cat/1.png", "cat"}, {"b/c/dog/1.png", "dog"}}},
        PatternRow{"named_folders_of_dated_sets",
                   {"2023-*/cat/*", "2023-*/dog/*"},
                   {{"2023-01/cat/1.png", "cat"}, {"2023-02/dog/1.png", "dog"}}},
        PatternRow{"dated_classes",
                   {"2023-*/cat/*"},
                   {{"2023-01/cat/1.png", "2023-01"}, {"2023-02/cat/1.png", "2023-02"}}},
        PatternRow{"several_sets",
                   {"a/**/*.png", "b/**/*.png"},
                   {{"a/cat/1.png", "cat"}, {"b/cat/2.png", "cat"}, {"b/dog/1.png", "dog"}}},
        PatternRow{"several_classes_with_folders",
                   {"cat/**/*.png", "dog/**/*.png"},
                   {{"cat/1.png", "cat"}, {"cat/day/1.png", "cat"}, {"dog/1.png", "dog"}}},
        PatternRow{"a_set_and_a_class",
                   {"t/*/*.png", "cow/*.png"},
                   {{"t/cat/1.png", "cat"}, {"t/dog/1.png", "dog"}, {"cow/1.png", "cow"}}},
        PatternRow{"letters",
                   {"t/[cd]*/*.png"},
                   {{"t/cat/1.png", "cat"}, {"t/dog/1.png", "dog"}},
                   {"t/empty/1.png"}},
        PatternRow{"a_name_with_signs",
                   {"odd\\[1\\]/*/*.png"},
                   {{"odd[1]/cat/1.png", "cat"}, {"odd[1]/dog/1.png", "dog"}}}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(ClassFolders, AreThoseOfTheTrainingDataWhereTheyAreKnown) {
  const ImageTree tree({"v/cat/1.png", "v/cat/images/1.png", "w/x/cat/images/1.png"});
  const Names known{"cat", "dog"};
  EXPECT_THAT(tree.classes({"v/cat/*.png"}, known),
              ElementsAre(::testing::Pair("v/cat/1.png", "cat")));
  EXPECT_THAT(tree.classes({"w/*/cat/images/*.png"}, known),
              ElementsAre(::testing::Pair("w/x/cat/images/1.png", "cat")));
  EXPECT_THAT(tree.classes({"w/*/cat/images/*.png"}),
              ElementsAre(::testing::Pair("w/x/cat/images/1.png", "x")))
      << "the control";
}

TEST(ClassFolders, AreRefusedWhereTheyCouldBeTwoThings) {
  const ImageTree tree({"cat/day/1.png", "dog/1.png"});
  EXPECT_THAT(
      refusal(Error::Kind::usage,
              [&] {
                tree.open({"cat/**/*.png", "dog/**/*.png"});
              }),
      AllOf(HasSubstr("data.train"), HasSubstr("dog/1.png, which lies in "),
            HasSubstr("cat/day/1.png, which lies in a folder of "), HasSubstr("cat/*/**/*\"")));
}

TEST(ClassFolders, SayWhatTheyLeaveOut) {
  const ImageTree tree({"t/cat/1.png", "t/dog/1.png", "t/cover.png", "t/meta/names.txt",
                        "t/runs/first/metrics.jsonl", "t/.cache/1.png"});
  const ClassFolders all = tree.open({"t/**/*.png"});
  ASSERT_THAT(all.remarks(), SizeIs(2));
  EXPECT_THAT(all.remarks()[0], HasSubstr("t/cover.png"));
  EXPECT_THAT(all.remarks()[1], AllOf(HasSubstr("t/meta and "), HasSubstr("t/runs"),
                                      ::testing::Not(HasSubstr("cache"))));
  EXPECT_THAT(tree.open({"t/[cd]*/*.png"}).remarks(), IsEmpty());
  EXPECT_THAT(tree.open({"t/*/*.png"}, {"cat", "dog", "meta"}).remarks(), IsEmpty())
      << "held-out data need not have all classes";
}

TEST(ClassFolders, SayWhereImagesLieDeeper) {
  const ImageTree tree({"t/cat/day/1.png", "t/cat/2.png", "t/dog/1.png"});
  ASSERT_THAT(tree.open({"t/**/*.png"}).remarks(), SizeIs(1));
  EXPECT_THAT(tree.open({"t/**/*.png"}).remarks()[0],
              AllOf(HasSubstr("1 image lies in a folder below that of the class: "),
                    HasSubstr("t/cat/day/1.png is of class 'cat'")));
  EXPECT_THAT(tree.open({"t/*/*.png"}).remarks(), IsEmpty());
}

class LinkedClasses : public ::testing::TestWithParam<const char*> {
 protected:
  LinkedClasses() : tree_({"real1/0.png", "real2/0.png", "t/c/0.png"}) {
    link("../real1", "t/a");
    link("../real2", "t/b");
  }
  void link(const char* target, const char* name) const {
    fs::create_directory_symlink(target, tree_.folder().path(name));
  }
  ImageTree tree_;
};

TEST_P(LinkedClasses, AreClassesLikeOthers) {
  const std::map<std::string, std::string> expected{
      {"t/a/0.png", "a"}, {"t/b/0.png", "b"}, {"t/c/0.png", "c"}};
  EXPECT_EQ(tree_.classes({GetParam()}), expected);
  EXPECT_THAT(tree_.open({GetParam()}).remarks(), IsEmpty());
}

/// The images count once: in the first of the two.
TEST_P(LinkedClasses, ThatLeadToOneFolderAreNamed) {
  link("../real1", "t/d");
  const std::map<std::string, std::string> expected{
      {"t/a/0.png", "a"}, {"t/b/0.png", "b"}, {"t/c/0.png", "c"}};
  EXPECT_EQ(tree_.classes({GetParam()}), expected);
  EXPECT_THAT(tree_.open({GetParam()}).remarks(), ::testing::Contains(HasSubstr("t/d")));
}

/// By its own name, if the folder is also found by that.
TEST_P(LinkedClasses, ThatLeadToAClassBesideThemAreNamed) {
  link("c", "t/0");
  EXPECT_EQ(tree_.classes({GetParam()}).size(), 3U);
  EXPECT_THAT(tree_.open({GetParam()}).remarks(),
              ::testing::Contains(::testing::ContainsRegex("t/(0|c)")));
}

INSTANTIATE_TEST_SUITE_P(Patterns, LinkedClasses,
                         ::testing::Values("t/*/*.png", "t/**/*.png", "t/*/**/*.png"),
                         [](const auto& row) { return "pattern" + std::to_string(row.index); });

TEST(ClassFolders, NameImagesThatLieInSeveral) {
  const ImageTree tree({"t/cat/1.png", "t/dog/1.png"});
  fs::create_symlink("../cat/1.png", tree.folder().path("t/dog/2.png"));
  const ClassFolders folders = tree.open({"t/*/*.png"});
  ASSERT_THAT(folders.remarks(), SizeIs(1));
  EXPECT_THAT(folders.remarks()[0],
              AllOf(HasSubstr("1 image in the folders of several classes"),
                    HasSubstr("t/cat/1.png, which is also "), HasSubstr("t/dog/2.png")));
  fs::create_symlink("1.png", tree.folder().path("t/cat/3.png"));
  EXPECT_THAT(tree.open({"t/[c]*/*.png", "t/[d]*/1.png"}).remarks(), IsEmpty())
      << "names in one class are no matter";
}

}  // namespace
}  // namespace accrue::data
