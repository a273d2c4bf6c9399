// The facts about files and folders that accrue init finds.
#include "train/workload/first/data_facts.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "accrue/core/error.h"
#include "data/folder.h"
#include "support/errors.h"
#include "support/png.h"

namespace accrue::train {
namespace {

using accrue::data::testing::Folder;
using accrue::testing::png_of;
using accrue::testing::usage_message;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Names = std::vector<std::string>;

std::string lines_of_text(int lines) {
  std::string text;
  for (int line = 0; line < lines; ++line)
    text += std::to_string(line) + " the quick brown fox jumps over the lazy dog\n";
  return text;
}

/// Contents of files with these names: images, idx, CIFAR's records, token ids, lines or text.
std::string content_of(const std::string& name) {
  constexpr int samples = 20;
  if (name.ends_with(".png")) return png_of(8, 8, 1, std::string(64, 'x'));
  if (name.ends_with(".jsonl")) return "{\"text\": \"the quick brown fox\"}\n";
  if (name.find("batch") != std::string::npos) {
    std::string records;
    for (int i = 0; i < samples; ++i)
      records += static_cast<char>(i % 10) + std::string(3072, static_cast<char>(i));
    return records;
  }
  if (name.ends_with(".bin")) return std::string(400, '\1');
  if (name.find("idx3") != std::string::npos)
    return std::string("\0\0\x08\x03\0\0\0\x14\0\0\0\x08\0\0\0\x08", 16) +
           std::string(samples * 64, 'x');
  if (name.find("idx1") != std::string::npos)
    return std::string("\0\0\x08\x01\0\0\0\x14", 8) + std::string(samples, '\1');
  return lines_of_text(10);
}

/// Facts about "d" in a folder with `files`, whose names are relative to it.
DataFacts facts_of(const Names& files, const Names& named = {"d"}) {
  const Folder folder;
  for (const std::string& file : files) folder.write(file, content_of(file));
  FirstFiles first;
  for (const std::string& name : named) first.train.push_back(folder.path(name));
  DataFacts facts = inspect_data(first);
  for (Names* names : {&facts.train, &facts.val, &facts.unread})
    for (std::string& name : *names) name = name.substr(folder.path("").size());
  return facts;
}

struct FolderRow {
  const char* name;
  Names files;  ///< below "d"
  Names train, val;
  Names unread = {};
};

class DataOfAFolder : public ::testing::TestWithParam<FolderRow> {};

TEST_P(DataOfAFolder, AreInParts) {
  const FolderRow& row = GetParam();
  const DataFacts facts = facts_of(row.files);
  EXPECT_EQ(facts.train, row.train);
  EXPECT_EQ(facts.val, row.val);
  EXPECT_EQ(facts.unread, row.unread);
  EXPECT_THAT(facts.run_name(), "runs/d");
}

TEST(NameOfRun, IsThatOfTheFolderWithAllFiles) {
  const std::vector<std::pair<Names, std::string>> rows{
      {{"tale.txt"}, "runs/tale"},
      {{"texts/tale.txt"}, "runs/tale"},
      {{"texts/a.txt", "texts/b.txt"}, "runs/texts"},
      {{"data/fr/a.txt", "data/en/b.txt", "data/c.txt"}, "runs/data"},
      {{"/mnt/texts/a.txt", "/mnt/texts/deep/b.txt"}, "runs/texts"},
      {{"texts/*.txt"}, "runs/texts"},
      {{"texts/*.txt", "texts/*.md"}, "runs/texts"},
      {{"data/fr/", "data/en/"}, "runs/data"},
      {{"text/a.txt", "texts/b.txt"}, "runs/a"},  // no folder, though letters agree
      {{"a.txt", "b.txt"}, "runs/a"},
      {{"../a.txt", "../b.txt"}, "runs/a"},
      {{"./a.txt", "./b.txt"}, "runs/a"},
      {{"/a.txt", "/b.txt"}, "runs/a"},
      {{"*.txt", "*.md"}, "runs/first"},
      {{}, "runs/first"}};
  for (const auto& [names, expected] : rows) EXPECT_EQ(name_of_run(names, ""), expected);
  EXPECT_EQ(name_of_run({"texts/a.txt", "texts/b.txt"}, "models/base"), "runs/base-texts");
}

/// `count` images of each class in each folder.
Names images_in(const Names& folders, int count = 4) {
  Names files;
  for (const std::string& folder : folders)
    for (int i = 0; i < count; ++i)
      files.push_back("d/" + folder + "/" + std::to_string(i) + ".png");
  return files;
}

Names with_files(Names files, const Names& more) {
  files.insert(files.end(), more.begin(), more.end());
  return files;
}

INSTANTIATE_TEST_SUITE_P(
    Table, DataOfAFolder,
    ::testing::Values(
        FolderRow{"train_and_val",
                  images_in({"train/a", "train/b", "val/a", "val/b"}),
                  {"d/train/*/**/*.png"},
                  {"d/val/*/**/*.png"}},
        FolderRow{"training_and_validation",
                  images_in({"training/a", "training/b", "Validation/a"}),
                  {"d/training/*/**/*.png"},
                  {"d/Validation/*/**/*.png"}},
        FolderRow{"train_and_valid_and_test",
                  images_in({"train/a", "train/b", "valid/b", "test/a", "test/b"}),
                  {"d/train/*/**/*.png"},
                  {"d/valid/*/**/*.png"},
                  {"d/test"}},
        FolderRow{"train_and_test",
                  images_in({"train/a", "train/b", "test/a", "test/b"}),
                  {"d/train/*/**/*.png"},
                  {"d/test/*/**/*.png"}},
        FolderRow{"a_test_without_classes",
                  with_files(images_in({"train/a", "train/b", "test"}), {"d/names.txt"}),
                  {"d/train/*/**/*.png"},
                  {},
                  {"d/names.txt", "d/test"}},
        FolderRow{
            "a_class_called_train", images_in({"car", "plane", "train"}), {"d/*/**/*.png"}, {}},
        FolderRow{"a_class_called_valid", images_in({"valid", "invalid"}), {"d/*/**/*.png"}, {}},
        FolderRow{"classes_of_folders",
                  with_files(images_in({"cat/day", "cat/night", "dog"}), {"d/cover.png"}),
                  {"d/*/**/*.png"},
                  {},
                  {"d/cover.png"}},
        FolderRow{"classes_with_a_val_beside",
                  images_in({"a", "b", "val/a", "val/b"}),
                  {"d/a/**/*.png", "d/b/**/*.png"},
                  {"d/val/*/**/*.png"}},
        FolderRow{"a_folder_in_between",
                  images_in({"set/train/a", "set/train/b", "set/val/a"}),
                  {"d/set/train/*/**/*.png"},
                  {"d/set/val/*/**/*.png"}},
        FolderRow{"classes_beside_runs",
                  with_files(images_in({"a", "b"}, 8), {"d/runs/log.txt"}),
                  {"d/*/**/*.png"},
                  {},
                  {"d/runs"}},
        FolderRow{"images_in_folders_of_classes",
                  images_in({"train/a/images", "train/b/images"}, 8),
                  {"d/train/*/**/*.png"},
                  {}},
        FolderRow{"text_files",
                  {"d/train.txt", "d/val.txt", "d/README.md"},
                  {"d/train.txt"},
                  {"d/val.txt"},
                  {"d/README.md"}},
        FolderRow{"text_with_words",
                  {"d/wiki.train.raw", "d/wiki.valid.raw", "d/wiki.test.raw"},
                  {"d/wiki.train.raw"},
                  {"d/wiki.valid.raw"},
                  {"d/wiki.test.raw"}},
        FolderRow{"text_folders",
                  {"d/train/a.txt", "d/train/b/c.txt", "d/val/a.txt"},
                  {"d/train/**"},
                  {"d/val/**"}},
        FolderRow{"a_val_beside_other_text",
                  {"d/a.txt", "d/b.txt", "d/val.txt"},
                  {"d/a.txt", "d/b.txt"},
                  {"d/val.txt"}},
        FolderRow{"source_code", {"d/train.py", "d/test.py", "d/model.py"}, {"d/**"}, {}},
        FolderRow{"lines",
                  {"d/train.jsonl", "d/validation.jsonl", "d/README.md"},
                  {"d/train.jsonl"},
                  {"d/validation.jsonl"},
                  {"d/README.md"}},
        FolderRow{"tokens_beside_text",
                  {"d/train.bin", "d/val.bin", "d/input.txt"},
                  {"d/train.bin"},
                  {"d/val.bin"},
                  {"d/input.txt"}},
        FolderRow{"cifar",
                  {"d/data_batch_1.bin", "d/test_batch.bin", "d/readme.html"},
                  {"d/data_batch_1.bin"},
                  {"d/test_batch.bin"}},
        FolderRow{"idx",
                  {"d/train-images-idx3-ubyte", "d/train-labels-idx1-ubyte",
                   "d/t10k-images-idx3-ubyte", "d/t10k-labels-idx1-ubyte"},
                  {"d/train-images-idx3-ubyte"},
                  {"d/t10k-images-idx3-ubyte"}}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(DataFacts, TakeManyFilesOfAPartInOnePattern) {
  Names files{"d/data/validation-00.jsonl", "d/README.md"};
  for (int i = 10; i < 22; ++i) files.push_back("d/data/train-" + std::to_string(i) + ".jsonl");
  const DataFacts facts = facts_of(files);
  EXPECT_THAT(facts.train, ElementsAre("d/data/train-*.jsonl"));
  EXPECT_THAT(facts.val, ElementsAre("d/data/validation-00.jsonl"));
  EXPECT_THAT(facts.unread, ElementsAre("d/README.md"));
  files.push_back("d/data/train-1z.jsonl.jsonl");
  EXPECT_THAT(facts_of(files).train, ElementsAre("d/data/train-*.jsonl"));
}

TEST(DataFacts, OfImagesHaveTheirClasses) {
  const DataFacts facts = facts_of(images_in({"cat/day", "cat/night", "dog"}));
  EXPECT_EQ(facts.format, data::Format::images);
  EXPECT_THAT(facts.classes, ElementsAre("cat", "dog"));
  EXPECT_EQ(facts.samples, 12);
  EXPECT_EQ(facts.vocab, 2);
}

/// CIFAR's records are not token ids, whatever their suffix.
TEST(DataFacts, OfSetsOfImagesAreNoTokens) {
  const DataFacts cifar = facts_of({"d/data_batch_1.bin", "d/test_batch.bin"});
  EXPECT_EQ(cifar.format, data::Format::images);
  EXPECT_EQ(cifar.samples, 20);
  EXPECT_EQ(cifar.tokens, 0);
  EXPECT_EQ(cifar.vocab, 10);
  const DataFacts one = facts_of({"d/data_batch_1.bin"}, {"d/data_batch_1.bin"});
  EXPECT_EQ(one.format, data::Format::images);
  const DataFacts ids = facts_of({"d/ids.bin"}, {"d/ids.bin"});
  EXPECT_EQ(ids.format, data::Format::tokens) << "the control";
  EXPECT_GT(ids.tokens, 0);
}

TEST(DataFacts, OfFoldersThatAreClassesOrHoldThem) {
  const Names classes = with_files(images_in({"cat", "dog"}), {"d/cat/more/1.png"});
  EXPECT_THAT(facts_of(classes, {"d/cat", "d/dog"}).classes, ElementsAre("cat", "dog"));
  const Names sets = images_in({"first/cat", "first/dog", "second/dog"});
  EXPECT_THAT(facts_of(sets, {"d/first", "d/second"}).classes, ElementsAre("cat", "dog"));
  EXPECT_THAT(usage_message([&] {
                facts_of(images_in({"cat", "more/dog"}), {"d/cat", "d/more"});
              }),
              HasSubstr("patterns that all lead to the folders of classes"));
}

TEST(DataFacts, NameWhatIsNoPngOrJpeg) {
  const Names files = with_files(images_in({"a", "b"}), {"d/a/x.webp", "d/b/y.bmp"});
  EXPECT_THAT(facts_of(files).unread, ElementsAre("d/a/x.webp", "d/b/y.bmp"));
}

}  // namespace
}  // namespace accrue::train
