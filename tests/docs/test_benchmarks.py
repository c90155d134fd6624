from bench.page import written


def test_the_page_and_its_pictures_are_what_the_result_files_say() -> None:
    assert {file.name for file, text in written().items() if file.read_text() != text} == set(), (
        "run `python -m bench.page`"
    )
